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
  /** for the screen */
  readonly description: string
  /** for the screen: why it is not another one */
  readonly note?: string
  /** absolute path */
  readonly kubeconfig: string
  stop(patience: AbortSignal): Promise<void>
}

export type DoubleOptions = Pick<ApiDoubleOptions, 'logLineEveryMs' | 'pastLogLines' | 'workload'>

export interface ClusterChoice {
  /** what `--kubeconfig` names */
  readonly kubeconfig: string | undefined
  /** what KUBEBUILDER_ASSETS names */
  readonly assets: string | undefined
  readonly folder: string
  readonly authority: Authority
  readonly doubleOptions?: DoubleOptions
  /** whether it gets a Deployment that gets no Pods; nothing is brought to one that was named */
  readonly broken?: boolean
}

/**
 * The cluster that was named; else a real API server if its programs are there; else the embedded double. No
 * cluster is ever found by itself: not by KUBECONFIG, not in the home folder.
 */
export function clusterKind({ kubeconfig, assets }: Pick<ClusterChoice, 'kubeconfig' | 'assets'>): ClusterKind {
  if (kubeconfig !== undefined) return 'named'
  return missingAssets(assets, 'api').length === 0 ? 'real' : 'double'
}

/** The one that `clusterKind` says. */
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

/** A folder that was named has no API server. */
export function noteOf(assets: string | undefined): Pick<Cluster, 'note'> {
  if (!assets) return {}
  const missing = missingAssets(assets, 'api').join(' and ')
  return { note: `KUBEBUILDER_ASSETS is ${assets}: no ${missing} there that can be run, so no real API server` }
}
