import { execFile } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

/** helm, and what it makes of the charts. */

export type ChartName = 'kas' | 'agentk'

export const chartsFolder = join(import.meta.dirname, '../../deploy/charts')

/** of the cluster that `helm template` takes for granted: one that was built from source knows of none */
const defaultKubeVersion = '1.35.4'
const maxOutputBytes = 4 * 1024 * 1024
const run = promisify(execFile)

export interface Rendering {
  readonly chart: ChartName
  /** default: the chart's name, as that of the namespace */
  readonly release?: string
  readonly namespace?: string
  /** of files with values, one over the other */
  readonly values?: readonly string[]
  /** `key=value`, over these */
  readonly set?: readonly string[]
  /** that the cluster has, besides Kubernetes' own: `monitoring.coreos.com/v1` */
  readonly apis?: readonly string[]
  /** of the cluster; default: one that the charts are for */
  readonly kubeVersion?: string
}

/** In the folder that KAS_RENDERERS names (`helm-3.22.0/helm`), the newest; else on the PATH. */
export function findHelm(environment: NodeJS.ProcessEnv = process.env): string | undefined {
  const { KAS_RENDERERS: renderers = '', PATH: path = '' } = environment
  const names = renderers !== '' && existsSync(renderers) ? readdirSync(renderers) : []
  const versions = names.sort((a, b) => b.localeCompare(a, undefined, { numeric: true }))
  const folders = versions.filter((name) => name.startsWith('helm-')).map((name) => join(renderers, name))
  return [...folders, ...path.split(delimiter)].map((folder) => join(folder, 'helm')).find(existsSync)
}

/** What it prints. @throws Error with what helm says */
export async function helm(program: string, args: readonly string[]): Promise<string> {
  try {
    const { stdout } = await run(program, args, { maxBuffer: maxOutputBytes })
    return stdout
  } catch (error) {
    throw new Error((error as { stderr?: string }).stderr?.trim() || String(error), { cause: error })
  }
}

/** The objects of a chart, as YAML: what `helm install` would send. @throws Error with what helm says */
export function render(
  program: string,
  { chart, values = [], set = [], apis = [], kubeVersion = defaultKubeVersion, ...names }: Rendering,
): Promise<string> {
  return helm(program, [
    'template',
    names.release ?? chart,
    join(chartsFolder, chart),
    `--namespace=${names.namespace ?? chart}`,
    `--kube-version=${kubeVersion}`,
    ...values.map((file) => `--values=${file}`),
    ...set.map((one) => `--set=${one}`),
    ...apis.map((one) => `--api-versions=${one}`),
  ])
}
