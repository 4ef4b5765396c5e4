package fileops

import (
	"errors"

	"holdpoint/op"
)

type yamlFormat struct{}

func (yamlFormat) decode([]byte) (any, error) { return nil, errors.New("not built") }
func (yamlFormat) value(op.Raw) (any, error)  { return nil, errors.New("not built") }
func (yamlFormat) replace([]byte, []string, op.Raw) ([]byte, error) {
	return nil, errors.New("not built")
}
func (yamlFormat) addKey([]byte, []string, string, op.Raw) ([]byte, error) {
	return nil, errors.New("not built")
}
func (yamlFormat) insert([]byte, []string, int, op.Raw) ([]byte, error) {
	return nil, errors.New("not built")
}
func (yamlFormat) remove([]byte, []string) ([]byte, error) { return nil, errors.New("not built") }
