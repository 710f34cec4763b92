// Package config reads geobridge's YAML configuration and hands out validated values.
//
// [Load] reports everything that the file alone shows to be wrong, all of it at once, each with line and column. It
// contacts nothing and opens no file but the one it is given: whether a topic exists, a credential is accepted or a
// certificate can be read is asked later, again and again, by the parts that need it.
//
// The values are plain data: nothing in them changes after Load, so they may be shared between goroutines.
package config
