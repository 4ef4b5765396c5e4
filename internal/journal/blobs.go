package journal

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"holdpoint/op"

	"github.com/zeebo/blake3"
)

const blobsDir = blobsName + "/"

// PutBlob keeps bytes under their digest and returns it with their number. DURABLE: the
// file and its name are on disk when it returns. Keeping the same bytes twice is one
// file, written anew, so that a damaged one is mended.
func (j *Journal) PutBlob(ctx context.Context, from io.Reader) (op.Digest, int64, error) {
	if err := ctx.Err(); err != nil {
		return "", 0, gone(err)
	}
	temp := blobsDir + string(j.NewID(tempMark))
	file, err := j.files.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", 0, ioError("make a blob", err)
	}
	h := blake3.New()
	n, err := io.Copy(io.MultiWriter(file, h), from)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = ctx.Err()
	}
	name := hex.EncodeToString(h.Sum(nil))
	if err == nil {
		err = j.files.root.Rename(temp, blobsDir+name)
	}
	if err != nil {
		j.files.root.Remove(temp)
		return "", n, ioError("write a blob", err)
	}
	if err := j.files.sync(blobsName); err != nil {
		return "", n, ioError("write a blob", err)
	}
	return op.Digest("blake3:" + name), n, nil
}

// Blob returns the bytes of a digest, hashed again on the way: op.NotFound when they are
// not kept, op.StateCorrupt when they are not what they were.
func (j *Journal) Blob(ctx context.Context, d op.Digest) ([]byte, error) {
	name, ok := digestHex(d)
	if !ok {
		return nil, op.Fail(op.NotFound, "there is no such blob")
	}
	data, err := j.files.root.ReadFile(blobsDir + name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, op.Fail(op.NotFound, "there is no such blob")
	}
	if err != nil {
		return nil, ioError("read a blob", err)
	}
	if sum := blake3.Sum256(data); hex.EncodeToString(sum[:]) != name {
		return nil, op.Fail(op.StateCorrupt, "the blob "+string(d)+" is not what it was")
	}
	return data, nil
}

// HasBlob reports whether bytes are kept under a digest, without reading them.
func (j *Journal) HasBlob(d op.Digest) bool {
	name, ok := digestHex(d)
	if !ok {
		return false
	}
	_, err := j.files.root.Lstat(blobsDir + name)
	return err == nil
}

// DropBlob ends the bytes of a digest; none there is no error. Whoever calls knows that
// nothing names them.
func (j *Journal) DropBlob(ctx context.Context, d op.Digest) error {
	name, ok := digestHex(d)
	if !ok {
		return nil
	}
	if err := j.files.root.Remove(blobsDir + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ioError("drop a blob", err)
	}
	return nil
}

// Blobs lists what is kept, with sizes.
func (j *Journal) Blobs(ctx context.Context) (map[op.Digest]int64, error) {
	entries, err := j.files.blobs()
	if err != nil {
		return nil, err
	}
	out := make(map[op.Digest]int64, len(entries))
	for _, e := range entries {
		d := op.Digest("blake3:" + e.Name())
		if info, err := e.Info(); err == nil {
			if _, ok := digestHex(d); ok {
				out[d] = info.Size()
			}
		}
	}
	return out, nil
}

func (f *files) blobs() ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.root.FS(), blobsName)
	if err != nil {
		return nil, ioError("list the blobs", err)
	}
	return entries, nil
}

// readyBlobs makes the directory and clears what a crash left half written.
func (f *files) readyBlobs() error {
	if err := f.root.Mkdir(blobsName, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return ioError("make the directory of blobs", err)
	}
	entries, err := f.blobs()
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempMark) {
			err = errors.Join(err, f.root.Remove(blobsDir+e.Name()))
		}
	}
	if err != nil {
		return ioError("ready the blobs", err)
	}
	return nil
}
