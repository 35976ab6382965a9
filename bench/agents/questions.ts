/** Messages over IPC between the bench, the processes that play agents, and the replicas. */

export interface CrowdSettings {
  /** port of 127.0.0.1 */
  readonly port: number
  readonly transport: Transport
  /** numbers of the agents: `from` to `to` - 1 */
  readonly from: number
  readonly to: number
}

export type Transport = 'grpc' | 'ws'

/** The answer to a question before the connections are lost, sent when each agent is back. */
export interface ReturnAnswer {
  /** time of each agent's return: a replica has read its two idle tunnels; by the machine's clock. ms */
  readonly tunnelsAt: readonly number[]
  /** time when each agent's configuration stream is answered again */
  readonly configurationAt: readonly number[]
}

/** A question to a replica over IPC. `live`: its memory after full collections of garbage. */
export interface ReplicaQuestion {
  readonly kind: 'memory' | 'live' | 'cpu'
}

/** Memory in bytes. */
export interface MemoryAnswer {
  readonly rss: number
  readonly heap: number
  /** buffers, and memory that node reports for C++ */
  readonly external: number
}

/** user and system time so far. ms */
export interface CpuAnswer {
  readonly cpuMs: number
}

export const tokenOf = (agent: number) => `bench-agent-${agent}`

/** project of an agent, 1 to `projects` */
export const projectOf = (agent: number, projects: number) => (agent % projects) + 1

/** Settings of the program that plays GitLab. */
export interface GitlabSettings {
  /** folder of Gitaly's repositories */
  readonly folder: string
  readonly agents: number
  readonly projects: number
}

/** Its address, and its secret in base64, as kas reads it. */
export interface GitlabThere {
  readonly address: string
  readonly secret: string
}

/** An order. `slow`: each answer of GitLab takes so long from now on. `push`: all projects get another commit. */
export type GitlabOrder =
  | { readonly kind: 'slow'; readonly ms: number }
  | { readonly kind: 'leave' | 'come' | 'push' | 'asked' }

/** Number of calls since the last order of this kind; `most`: in one second. */
export interface GitlabAsked {
  readonly gitlab: number
  readonly gitaly: number
  readonly mostGitlab: number
  readonly mostGitaly: number
}
