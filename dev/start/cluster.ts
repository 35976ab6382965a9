import { randomBytes } from 'node:crypto'
import { access, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { ApiDouble, type ApiDoubleOptions } from '../api-double/api-double.ts'
import { createBrokenWorkload } from '../broken-workload.ts'
import type { Authority } from '../certificates.ts'
import { missingAssets } from '../control-plane/assets.ts'
import { ControlPlane } from '../control-plane/control-plane.ts'
import { kubeconfigText } from '../control-plane/kubeconfig.ts'

export type ClusterKind = 'named' | 'real' | 'double'

/** The cluster that agentk serves. */
export interface Cluster {
  readonly kind: ClusterKind
  /** description for the screen */
  readonly description: string
  /** reason for the screen why it is not another one */
  readonly note?: string
  /** absolute path of its kubeconfig */
  readonly kubeconfig: string
  stop(patience: AbortSignal): Promise<void>
}

export type DoubleOptions = Pick<ApiDoubleOptions, 'logLineEveryMs' | 'pastLogLines' | 'workload'>

export interface ClusterChoice {
  /** value of `--kubeconfig` */
  readonly kubeconfig: string | undefined
  /** value of KUBEBUILDER_ASSETS */
  readonly assets: string | undefined
  readonly folder: string
  readonly authority: Authority
  readonly doubleOptions?: DoubleOptions
  /** adds a Deployment that gets no Pods; a named cluster gets none */
  readonly broken?: boolean
}

/**
 * Chooses the named cluster, else a real API server if its programs are there, else the embedded double. It never takes
 * a cluster by itself, neither from KUBECONFIG nor from the home folder.
 */
export function clusterKind({ kubeconfig, assets }: Pick<ClusterChoice, 'kubeconfig' | 'assets'>): ClusterKind {
  if (kubeconfig !== undefined) return 'named'
  return missingAssets(assets, 'api').length === 0 ? 'real' : 'double'
}

/** Starts the cluster that `clusterKind` chooses. */
export async function startCluster(choice: ClusterChoice): Promise<Cluster> {
  const { kubeconfig, assets } = choice
  const kind = clusterKind(choice)
  if (kind === 'named') return namedCluster(resolve(kubeconfig ?? ''))
  return kind === 'real' ? realCluster(assets ?? '', choice.broken === true) : doubleCluster(choice)
}

async function namedCluster(kubeconfig: string): Promise<Cluster> {
  await access(kubeconfig).catch(() => {
    throw new Error(`--kubeconfig: ${kubeconfig} cannot be read`)
  })
  return { kind: 'named', description: `the one that ${kubeconfig} names`, kubeconfig, stop: async () => undefined }
}

async function realCluster(assets: string, broken: boolean): Promise<Cluster> {
  const parts = missingAssets(assets, 'all').length === 0 ? 'all' : 'api'
  const controlPlane = new ControlPlane({ assets, parts })
  await controlPlane.start()
  if (broken) await createBrokenWorkload(controlPlane.admin, parts)
  const missing = missingAssets(assets, 'all').join(', ')
  const extent =
    parts === 'all'
      ? 'with controllers and one simulated node'
      : `alone: no controllers, no nodes (no ${missing} there)`
  return {
    kind: 'real',
    description: `a real API server of KUBEBUILDER_ASSETS at ${controlPlane.server}, ${extent}`,
    kubeconfig: controlPlane.kubeconfig,
    stop: (patience) => controlPlane.stop(patience),
  }
}

async function doubleCluster({
  assets,
  folder,
  authority,
  doubleOptions,
  broken = false,
}: ClusterChoice): Promise<Cluster> {
  const token = randomBytes(24).toString('base64url')
  const serving = await authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
  const double = new ApiDouble({ serving, clientAuthority: authority.certificate }, { token, broken, ...doubleOptions })
  await double.start()
  const kubeconfig = join(resolve(folder), 'cluster.kubeconfig')
  const content = kubeconfigText({
    name: 'api-double',
    server: double.url,
    authority: authority.certificate,
    user: { token },
  })
  await writeFile(kubeconfig, content, { mode: 0o600 })
  return {
    kind: 'double',
    description: `an embedded API double at ${double.url}: no real cluster, nothing runs in its pods`,
    ...noteOf(assets),
    kubeconfig,
    stop: () => double.stop(),
  }
}

/** Returns a note for a named folder without an API server. */
export function noteOf(assets: string | undefined): Pick<Cluster, 'note'> {
  if (!assets) return {}
  const missing = missingAssets(assets, 'api').join(' and ')
  return { note: `KUBEBUILDER_ASSETS is ${assets}: no ${missing} there that can be run, so no real API server` }
}
