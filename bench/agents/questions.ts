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
