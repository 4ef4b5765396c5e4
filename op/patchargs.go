package op

import "encoding/base64"

// PatchArgs applies a patch, or changes places of one document.
type PatchArgs struct {
	Patch        *string     `json:"patch" doc:"a unified diff of one or several files, or an apply_patch envelope"`
	PatchBase64  *string     `json:"patch_base64" doc:"the patch, where its bytes are not UTF-8"`
	Path         string      `json:"path" doc:"with operations: the document. With a patch of one file that names none: that file"`
	Operations   []PointerOp `json:"operations" doc:"changes to a JSON, YAML or TOML document by JSON Pointer, done in order, all or none"`
	Format       string      `json:"format" doc:"json, yaml or toml; by the name of the file when absent"`
	ExpectedHash string      `json:"expected_hash" doc:"the hash that the file must still have; for one file only"`
	Backup       *bool       `json:"backup" doc:"keep what was there; true when absent"`
	BackupRoot   string      `json:"backup_root" doc:"another place for the backup (needs a person)"`
	Safety
}

// PointerOp is one change to a document. Value is JSON text, kept as it was written: a
// number in a document is no number of ours.
type PointerOp struct {
	Op    string `json:"op" req:"true" doc:"set, add, replace, remove, append, insert or test"`
	Path  string `json:"path" req:"true" doc:"a JSON Pointer: /a/b/0"`
	Value Raw    `json:"value" doc:"the value"`
}

// Raw is the text of one JSON value without white space between its parts.
type Raw string

// MarshalJSON gives the text as it is.
func (r Raw) MarshalJSON() ([]byte, error) {
	if r == "" {
		return []byte("null"), nil
	}
	return []byte(r), nil
}

// Text returns the patch; nil when the call carries operations instead.
func (a PatchArgs) Text() ([]byte, error) {
	given := 0
	for _, is := range []bool{a.Patch != nil, a.PatchBase64 != nil, a.Operations != nil} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, Fail(BadRequest, "give one of patch, patch_base64 and operations").In("args.patch")
	case a.Patch != nil:
		return []byte(*a.Patch), nil
	case a.PatchBase64 != nil:
		b, err := base64.StdEncoding.DecodeString(*a.PatchBase64)
		if err != nil {
			return nil, Fail(BadRequest, "patch_base64 is not base64").In("args.patch_base64")
		}
		return b, nil
	case a.Path == "":
		return nil, Fail(BadRequest, "the argument path is missing").In("args.path").Do("operations change one document: name it")
	case len(a.Operations) == 0:
		return nil, Fail(BadRequest, "operations is empty").In("args.operations")
	}
	return nil, nil
}
