package receipt

import "go.uber.org/zap"

// Look is what Watch does at each tick.
func (k *Keys) Look(logger *zap.Logger) { k.file.Look(logger) }
