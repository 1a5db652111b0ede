// Package injecttest tests the guards of a deep agent with the prompt injections of AgentDojo.
// The model does whatever a text asks for, so only the guards are left.
package injecttest
