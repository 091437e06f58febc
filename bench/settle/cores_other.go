//go:build !linux

package main

import "errors"

func (s *stage) apart() error {
	return errors.New("the scene beside needs Linux")
}

func (s *stage) jobCommand(args ...string) []string { return args }
