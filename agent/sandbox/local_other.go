//go:build !unix

package sandbox

import (
	"context"
	"fmt"
)

func (l *Local) supported() error {
	return fmt.Errorf("%w: NewLocal needs Unix: use NewDocker", ErrUnsupported)
}

func (l *Local) run(context.Context, Command) (Result, error) { return Result{}, ErrUnsupported }
