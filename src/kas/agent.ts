import type { AgentId } from '../call/call.ts'

/** An agent, as identified by its token (doc/reference/gitlab-contract.md 2.2 no. 1). */
export interface Agent {
  readonly id: AgentId
  readonly name: string
  readonly project: { readonly id: bigint /** full path */; readonly path: string }
}

/** Returns the root group, which is one tenant: its owner may have any number of projects in it. */
export function rootGroupOf(projectPath: string): string {
  return (projectPath.split('/', 1)[0] as string).toLowerCase()
}
