//go:build !linux

package main

import "errors"

func (s *stage) apart() error {
	return errors.New("this scene can keep processes apart on Linux alone")
}

func (s *stage) jobCommand(args ...string) []string { return args }
