import { join, resolve } from 'node:path'
import { Program } from '../control-plane/program.ts'
import type { Warden } from '../control-plane/warden.ts'
import { nodeEnvironment, nodeFlags } from '../node-flags.ts'
import type { Ports } from './ports.ts'
import { files, replicaFiles } from './settings.ts'

const project = resolve(import.meta.dirname, '../..')
/** Variables of the caller's shell that would change the behaviour of kas or agentk. */
const foreign = /^(KUBECONFIG|KUBERNETES_|POD_|KAS_|AGENTK_|NODE_OPTIONS|NODE_COMPILE_CACHE|NODE_CHANNEL_FD|npm_)/

/** The commands of kas and agentk: the words before their own arguments, the first one an absolute path. */
export interface Programs {
  readonly kas: readonly string[]
  readonly agentk: readonly string[]
  /** variables of both, beside this process' own */
  readonly environment?: Readonly<Record<string, string>>
}

/** The programs of this source tree, with the Node that runs this. */
export const sourcePrograms: Programs = {
  kas: [process.execPath, ...nodeFlags, join(project, 'src/kas/main.ts')],
  agentk: [process.execPath, ...nodeFlags, join(project, 'src/agentk/main.ts')],
  environment: {
    ...nodeEnvironment,
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? join(project, 'node_modules/.cache/compiled'),
  },
}

interface Inputs {
  readonly warden: Warden
  readonly folder: string
  /** default: those of this source tree */
  readonly programs?: Programs | undefined
}

/** Returns a replica of kas with its configuration file in the state folder. */
export function kasProgram({ warden, folder, programs = sourcePrograms }: Inputs, name: string): Program {
  const { configuration, log } = replicaFiles(name)
  return localProgram(warden, {
    folder,
    logFile: log,
    command: [...programs.kas, `--configuration-file=${resolve(folder, configuration)}`],
    environment: { ...programs.environment },
  })
}

/**
 * Returns agentk with the flags of the stock one (doc/reference/tunnel-protocol.md 2.10).
 *
 * @param podName - default: one of this process
 */
export function agentkProgram(
  {
    warden,
    folder,
    ports,
    programs = sourcePrograms,
    podName = `npm-start-${process.pid}`,
  }: Inputs & { ports: Ports; podName?: string },
  cluster: { kubeconfig: string },
): Program {
  return localProgram(warden, {
    folder,
    logFile: files.agentkLog,
    command: [
      ...programs.agentk,
      `--kas-address=${agentAddress(ports)}`,
      `--ca-cert-file=${resolve(folder, files.authority)}`,
      `--token-file=${resolve(folder, files.agentToken)}`,
      `--kubeconfig=${cluster.kubeconfig}`,
      `--observability-listen-address=127.0.0.1:${ports.agentkOps}`,
    ],
    environment: { POD_NAMESPACE: 'default', POD_NAME: podName, ...programs.environment },
  })
}

export function agentAddress(ports: Ports): string {
  return `wss://127.0.0.1:${ports.agents}`
}

function localProgram(
  warden: Warden,
  init: { folder: string; logFile: string; command: readonly string[]; environment: Record<string, string> },
): Program {
  const folder = resolve(init.folder)
  const logFile = join(folder, init.logFile)
  // files that a killed program leaves are removed with the folder
  const environment = { ...ownEnvironment(), TMPDIR: folder, ...init.environment }
  const [command = '', ...args] = init.command
  return new Program({ warden }, { command, args, folder, logFile, environment })
}

/**
 * Returns this process' environment without the variables that its children must not get; loopback never uses a proxy.
 */
function ownEnvironment(): Record<string, string> {
  const kept = Object.entries(process.env).filter(([name, value]) => value !== undefined && !foreign.test(name))
  const env = Object.fromEntries(kept) as Record<string, string>
  const noProxy = [env.NO_PROXY ?? env.no_proxy, '127.0.0.1', 'localhost'].filter(Boolean).join(',')
  return { ...env, NO_PROXY: noProxy, no_proxy: noProxy }
}
