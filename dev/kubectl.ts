import { spawn } from 'node:child_process'
import { accessSync, constants, existsSync } from 'node:fs'
import { constants as osConstants } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import { files } from './start/settings.ts'
import { livingStateFolders, type StateFolder } from './start/state-folder.ts'

/** `npm run kubectl -- ...`: runs the kubectl of the PATH or of KUBEBUILDER_ASSETS, through the kas of `npm start`. */

const project = resolve(import.meta.dirname, '..')
const forwarded = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

async function main(): Promise<void> {
  const kubectl = findKubectl()
  const folder = await runningFolder()
  const env = {
    ...process.env,
    KUBECONFIG: join(folder.path, files.kubeconfig),
    // kubectl caches discovery by the server's address, where another cluster may run tomorrow
    KUBECACHEDIR: join(folder.path, files.kubectlCache),
  }
  const child = spawn(kubectl, process.argv.slice(2), { stdio: 'inherit', env })
  for (const signal of forwarded) process.on(signal, () => child.kill(signal))
  child.once('error', (error) => fail(error.message))
  child.once('exit', (code, signal) => {
    process.exitCode = code ?? 128 + (signal ? osConstants.signals[signal] : 0)
  })
}

async function runningFolder(): Promise<StateFolder> {
  const living = await livingStateFolders(resolve(project, '.run'))
  const wanted = process.env.KAS_RUN
  const folder = wanted === undefined ? living[0] : living.find(({ number }) => String(number) === wanted)
  if (!folder) {
    const which =
      wanted === undefined ? 'No npm start runs in this folder' : `No npm start number ${wanted} runs in this folder`
    throw new Error(`${which}. Start one in another terminal: npm start`)
  }
  if (!existsSync(join(folder.path, files.kubeconfig)))
    throw new Error('npm start is not ready yet: wait for its lines to try')
  return folder
}

function findKubectl(): string {
  const folders = [...(process.env.PATH ?? '').split(delimiter), process.env.KUBEBUILDER_ASSETS ?? ''].filter(Boolean)
  const found = folders.map((folder) => join(folder, 'kubectl')).find(isExecutable)
  if (found !== undefined) return found
  throw new Error('There is no kubectl on the PATH or in KUBEBUILDER_ASSETS. The curl lines of npm start need none')
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

function fail(message: string): void {
  process.stderr.write(`npm run kubectl: ${message}\n`)
  process.exitCode = 1
}

await main().catch((error: Error) => fail(error.message))
