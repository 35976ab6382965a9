/** What the bench says to the processes that play agents, and to the replicas, over IPC. */

export interface CrowdSettings {
  /** of 127.0.0.1 */
  readonly port: number
  readonly transport: Transport
  /** numbers of the agents, from the first to the one before the last */
  readonly from: number
  readonly to: number
}

export type Transport = 'grpc' | 'ws'

/** Asked before the connections are lost; answered when each agent is back. */
export interface ReturnAnswer {
  /** by agent: its two idle tunnels are at a replica again, which has read them; by the machine's clock. ms */
  readonly tunnelsAt: readonly number[]
  /** its configuration stream is answered again */
  readonly configurationAt: readonly number[]
}

/** What a replica is asked over IPC. `live`: its memory after full collections of garbage. */
export interface ReplicaQuestion {
  readonly kind: 'memory' | 'live' | 'cpu'
}

/** Bytes. */
export interface MemoryAnswer {
  readonly rss: number
  readonly heap: number
  /** buffers, and what node keeps in C++ and tells of */
  readonly external: number
}

/** user and system time so far. ms */
export interface CpuAnswer {
  readonly cpuMs: number
}

export const tokenOf = (agent: number) => `bench-agent-${agent}`

/** of the projects 1 to `projects` */
export const projectOf = (agent: number, projects: number) => (agent % projects) + 1

/** What the program that plays GitLab is started with. */
export interface GitlabSettings {
  /** where its Gitaly has the repositories */
  readonly folder: string
  readonly agents: number
  readonly projects: number
}

/** Where it is; the secret in base64, as kas reads it. */
export interface GitlabThere {
  readonly address: string
  readonly secret: string
}

/** `slow`: each answer of GitLab takes so long from now on. `push`: all projects get another commit. */
export type GitlabOrder =
  | { readonly kind: 'slow'; readonly ms: number }
  | { readonly kind: 'leave' | 'come' | 'push' | 'asked' }

/** Calls since the last time it was asked; `most`: in one second. */
export interface GitlabAsked {
  readonly gitlab: number
  readonly gitaly: number
  readonly mostGitlab: number
  readonly mostGitaly: number
}
