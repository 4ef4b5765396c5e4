package protected

import (
	"strings"

	"holdpoint/op"
)

// Sensitive reports whether p, by its name, or content looks like a credential. Names
// that the protected list holds are not repeated here: ask Mark as well. content may be
// nil, and may be the first part of a file.
//
// It is a guard against accidents, made not to trip over ordinary source: no entropy is
// measured, a variable called password says nothing, and a secret of no well-known shape
// passes. By name:
//
//   - files of programs that keep a password or key in them (.pgpass, .htpasswd, wallet.dat),
//   - key containers by extension (.ppk, .p8, .keytab, .ovpn, ...),
//   - credentials, secrets, passwords, api_keys and the like, bare or with the extension
//     of a data file (secrets.yaml, but not secrets.go), also after a dot,
//   - client_secret*.json and gha-creds-*.json.
//
// By content: private keys (PEM, OpenSSH, PGP, PuTTY, age) with key material after their
// header, and the tokens of the table below.
func Sensitive(p op.Path, content []byte) bool {
	path := ntfs(fold(tidy(string(p))))
	return sensitiveName(path[strings.LastIndexByte(path, '/')+1:]) || sensitiveContent(content)
}

func sensitiveName(name string) bool {
	if secretFiles[name] {
		return true
	}
	bare := strings.TrimPrefix(name, ".")
	stem, ext := bare, ""
	if i := strings.LastIndexByte(bare, '.'); i > 0 {
		stem, ext = bare[:i], bare[i+1:]
	}
	if secretExtensions[ext] {
		return true
	}
	if dataExtensions[ext] && secretStems[noDashes.Replace(stem)] {
		return true
	}
	return ext == "json" && (strings.HasPrefix(stem, "client_secret") || strings.HasPrefix(stem, "gha-creds-"))
}

var noDashes = strings.NewReplacer("-", "", "_", "")

func table(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

var (
	secretFiles = table(`.pgpass .my.cnf .mylogin.cnf .htpasswd .htdigest .s3cfg .boto .dockercfg .fetchmailrc .msmtprc
		.vault_pass .vault-pass .vault_pass.txt .credentials .secrets .passwd-s3fs .rhosts .shosts _netrc id_dsa
		wallet.dat secring.gpg secring.pgp htpasswd shadow gshadow sftp-config.json`)
	secretExtensions = table(`ppk p8 pk8 pkcs12 keytab kdb ovpn agilekeychain keychain opvault bek fve psafe3`)
	secretStems      = table(`credential credentials secret secrets password passwords passwd passphrase apikey apikeys
		privatekey awscredentials accesstoken authtoken`)
	dataExtensions = map[string]bool{"": true, "txt": true, "json": true, "yml": true, "yaml": true, "toml": true, "ini": true,
		"csv": true, "xml": true, "cfg": true, "conf": true, "env": true, "properties": true}
)
