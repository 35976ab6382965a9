import { readFile } from 'node:fs/promises'
import type { Test } from 'tap'
import { createServiceAccount } from '../../../dev/control-plane/service-account.ts'
import type { NodeCluster } from '../../support/nodes/node-cluster.ts'
import type { KubeOptions } from '../kube.ts'
import type { ChartsGround } from './charts-ground.ts'
import { versionBefore } from './images.ts'
import type { PodLeaves } from './pod-leaves.ts'
import type { TunnelCount } from './tunnel-count.ts'

export interface ChartsOptions {
  /** calls begun each second */
  readonly calls: number
  readonly watches: number
  readonly execs: number
}

export interface ChartsStage {
  readonly t: Test
  readonly ground: ChartsGround
  readonly options: ChartsOptions
  readonly leaves: PodLeaves
  readonly tunnels: TunnelCount
}

/** Shorter than the shipped graces, so that a pod leaves within half a minute. */
export const graces = { listenMs: 10_000, shutdownMs: 15_000 }
/** grace of calls at a pod of agentk that is stopped (src/agentk/main.ts). ms */
export const agentkGraceMs = 25_000

const ofKas = [`graces.listen=${graces.listenMs / 1000}s`, `graces.shutdown=${graces.shutdownMs / 1000}s`]
/** value that selects the older images */
const before = `image.tag=${versionBefore}`

/** Values for helm, beside those of the ground. */
export const values = {
  before: { kas: [...ofKas, before], agentk: [before] },
  now: { kas: ofKas, agentk: [] },
} as const

/** The callers' namespace, and the pod in which they have a shell. */
export const workplace = { namespace: 'load', pod: 'cat', node: 1 }

export const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`

const tokenMs = 3_600_000

/** Access of an administrator, without kas. */
export async function adminOf(cluster: NodeCluster, namespace: string): Promise<KubeOptions> {
  const account = await createServiceAccount(cluster.admin, { namespace, name: 'ticks' })
  const ca = await readFile(cluster.caFile, 'utf8')
  return { server: cluster.server, ca, credential: cluster.signToken({ account, lifeMs: tokenMs }) }
}
