package walletapi

import "go.uber.org/zap"

// Look is what Watch does at each tick.
func (k *ServiceKeys) Look(logger *zap.Logger) { k.file.Look(logger) }
