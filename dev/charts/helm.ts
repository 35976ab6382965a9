import { execFile } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

/** helm, and its output for the charts. */

export type ChartName = 'kas' | 'agentk'

export const chartsFolder = join(import.meta.dirname, '../../deploy/charts')

/** version of the cluster for `helm template`: a helm that was built from source has no default */
const defaultKubeVersion = '1.35.4'
const maxOutputBytes = 4 * 1024 * 1024
const run = promisify(execFile)

export interface Rendering {
  readonly chart: ChartName
  /** default: the chart's name, also for the namespace */
  readonly release?: string
  readonly namespace?: string
  /** files of values, each over the ones before */
  readonly values?: readonly string[]
  /** `key=value`, over the files */
  readonly set?: readonly string[]
  /** APIs of the cluster besides Kubernetes' own: `monitoring.coreos.com/v1` */
  readonly apis?: readonly string[]
  /** version of the cluster; default: one that the charts support */
  readonly kubeVersion?: string
}

/** Returns the newest helm in the folder KAS_RENDERERS (`helm-3.22.0/helm`), or else the one on the PATH. */
export function findHelm(environment: NodeJS.ProcessEnv = process.env): string | undefined {
  const { KAS_RENDERERS: renderers = '', PATH: path = '' } = environment
  const names = renderers !== '' && existsSync(renderers) ? readdirSync(renderers) : []
  const versions = names.sort((a, b) => b.localeCompare(a, undefined, { numeric: true }))
  const folders = versions.filter((name) => name.startsWith('helm-')).map((name) => join(renderers, name))
  return [...folders, ...path.split(delimiter)].map((folder) => join(folder, 'helm')).find(existsSync)
}

/** Runs helm. @returns its output. @throws Error with helm's message */
export async function helm(program: string, args: readonly string[]): Promise<string> {
  try {
    const { stdout } = await run(program, args, { maxBuffer: maxOutputBytes })
    return stdout
  } catch (error) {
    throw new Error((error as { stderr?: string }).stderr?.trim() || String(error), { cause: error })
  }
}

/** Returns the objects of a chart, as YAML: those that `helm install` would send. @throws Error with helm's message */
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
