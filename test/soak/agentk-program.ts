import { join, resolve } from 'node:path'
import { Program } from '../../dev/control-plane/program.ts'
import type { Warden } from '../../dev/control-plane/warden.ts'
import { nodeEnvironment } from '../../dev/node-flags.ts'
import type { Programs } from '../../dev/start/local-programs.ts'
import { files } from '../../dev/start/settings.ts'
import { testPrograms } from '../support/programs.ts'
import type { Scheme } from './soak-options.ts'

const project = resolve(import.meta.dirname, '../..')

export interface AgentkProgramOptions {
  /** folder with the settings of kas and of the agent */
  readonly folder: string
  /** absolute path; names the cluster and agentk's account */
  readonly kubeconfig: string
  /** scheme of the connection to kas; both carry TLS */
  readonly scheme: Scheme
  /** port of 127.0.0.1 where kas accepts agents */
  readonly kasPort: number
  /** port of 127.0.0.1 for its own metrics */
  readonly opsPort: number
  readonly podName: string
  /** name of a file in `folder` */
  readonly logFile: string
  /** default: those of this source tree */
  readonly programs?: Programs | undefined
  /** flags beside the usual ones */
  readonly flags?: readonly string[]
  /** variables beside the usual ones */
  readonly environment?: Readonly<Record<string, string>>
}

/** One pod of our agentk as a process; from the source tree it runs with the Node of this process. */
export function agentkProgram(components: { warden: Warden }, options: AgentkProgramOptions): Program {
  const { PATH, HOME } = process.env
  const { folder, kubeconfig, scheme, kasPort, opsPort, podName, logFile, programs = testPrograms } = options
  const [command, ...words] = programs.agentk
  const args = [
    ...words,
    `--kas-address=${scheme}://127.0.0.1:${kasPort}`,
    `--ca-cert-file=${join(folder, files.authority)}`,
    `--token-file=${join(folder, files.agentToken)}`,
    `--kubeconfig=${kubeconfig}`,
    `--observability-listen-address=127.0.0.1:${opsPort}`,
    ...(options.flags ?? []),
  ]
  const environment = {
    ...nodeEnvironment,
    PATH: PATH ?? '',
    HOME: HOME ?? folder,
    POD_NAMESPACE: 'default',
    POD_NAME: podName,
    ...programs.environment,
    ...options.environment,
  }
  const log = join(folder, logFile)
  return new Program(components, { command: command as string, args, folder: project, logFile: log, environment })
}
