//go:build !mcpsdk

package main

import "holdpoint/bridge"

// toolServer stands in where MCP is not built in.
type toolServer struct{}

func mountTools(*opened, *bridge.Server) toolServer { return toolServer{} }

func (toolServer) Clients() int64 { return 0 }
func (toolServer) Close()         {}

// upgradeWord is what a splice asks to speak after the upgrade.
const upgradeWord = "holdpoint-mcp"
