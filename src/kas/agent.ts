import type { AgentId } from '../call/call.ts'

/** An agent, as its token identifies it (doc/reference/gitlab-contract.md 2.2 no. 1). */
export interface Agent {
  readonly id: AgentId
  readonly name: string
  readonly project: { readonly id: bigint /** full path */; readonly path: string }
}

/** Of one root group all is one tenant's: who has a group may have any number of projects in it. */
export function rootGroupOf(projectPath: string): string {
  return (projectPath.split('/', 1)[0] as string).toLowerCase()
}
