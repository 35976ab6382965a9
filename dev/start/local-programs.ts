import { join, resolve } from 'node:path'
import { Program } from '../control-plane/program.ts'
import type { Warden } from '../control-plane/warden.ts'
import { nodeFlags } from '../node-flags.ts'
import type { Ports } from './ports.ts'
import { files, replicaFiles } from './settings.ts'

const project = resolve(import.meta.dirname, '../..')
/** Settings of the caller's shell that would steer kas or agentk elsewhere. */
const foreign = /^(KUBECONFIG|KUBERNETES_|POD_|KAS_|AGENTK_|NODE_OPTIONS|NODE_CHANNEL_FD|npm_)/

interface Inputs {
  readonly warden: Warden
  readonly folder: string
}

/** A replica of kas with its configuration file of the state folder, by the Node that runs this. */
export function kasProgram({ warden, folder }: Inputs, name: string): Program {
  const { configuration, log } = replicaFiles(name)
  return nodeProgram(warden, {
    folder,
    logFile: log,
    args: ['src/kas/main.ts', `--configuration-file=${resolve(folder, configuration)}`],
  })
}

/** agentk with the flags of the stock one (wire-protocol 2.10). */
export function agentkProgram(
  { warden, folder, ports }: Inputs & { ports: Ports },
  cluster: { kubeconfig: string },
): Program {
  return nodeProgram(warden, {
    folder,
    logFile: files.agentkLog,
    args: [
      'src/agentk/main.ts',
      `--kas-address=${agentAddress(ports)}`,
      `--ca-cert-file=${resolve(folder, files.authority)}`,
      `--token-file=${resolve(folder, files.agentToken)}`,
      `--kubeconfig=${cluster.kubeconfig}`,
      `--observability-listen-address=127.0.0.1:${ports.agentkOps}`,
    ],
    environment: { POD_NAMESPACE: 'default', POD_NAME: `npm-start-${process.pid}` },
  })
}

export function agentAddress(ports: Ports): string {
  return `wss://127.0.0.1:${ports.agents}`
}

function nodeProgram(
  warden: Warden,
  init: { folder: string; logFile: string; args: readonly string[]; environment?: Record<string, string> },
): Program {
  const folder = resolve(init.folder)
  const logFile = join(folder, init.logFile)
  // what a killed program leaves goes with the folder
  const environment = { ...ownEnvironment(), TMPDIR: folder, ...init.environment }
  const args = [...nodeFlags, ...init.args]
  return new Program({ warden }, { command: process.execPath, args, folder: project, logFile, environment })
}

/** This process' environment without what is not for the children; loopback never goes through a proxy. */
function ownEnvironment(): Record<string, string> {
  const kept = Object.entries(process.env).filter(([name, value]) => value !== undefined && !foreign.test(name))
  const env = Object.fromEntries(kept) as Record<string, string>
  const noProxy = [env.NO_PROXY ?? env.no_proxy, '127.0.0.1', 'localhost'].filter(Boolean).join(',')
  return { ...env, NO_PROXY: noProxy, no_proxy: noProxy }
}
