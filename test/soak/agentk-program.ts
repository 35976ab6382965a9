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
  /** with the settings of kas and of the agent */
  readonly folder: string
  /** absolute path: as whom it acts, and where */
  readonly kubeconfig: string
  /** how it reaches kas; both carry TLS */
  readonly scheme: Scheme
  /** of 127.0.0.1, where kas takes agents */
  readonly kasPort: number
  /** of 127.0.0.1, for its own metrics */
  readonly opsPort: number
  readonly podName: string
  /** in `folder` */
  readonly logFile: string
  /** default: those of this source tree */
  readonly programs?: Programs | undefined
  /** beside those that it always has */
  readonly flags?: readonly string[]
  /** beside what it always has */
  readonly environment?: Readonly<Record<string, string>>
}

/** One pod of our agentk as a process, by the Node that runs this if it is of the source tree. */
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
