import { rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { freeze } from './demo/scenes/freeze.ts'
import { join } from './demo/scenes/join.ts'
import { kill } from './demo/scenes/kill.ts'
import { large } from './demo/scenes/large.ts'
import { list } from './demo/scenes/list.ts'
import { sigterm } from './demo/scenes/sigterm.ts'
import { watch } from './demo/scenes/watch.ts'
import { type Scene, Stage } from './demo/stage.ts'
import { TemporaryInstallation } from './installed/temporary-installation.ts'
import type { Programs } from './start/local-programs.ts'
import { LocalStack } from './start/local-stack.ts'
import { anyPorts, replicaCount } from './start/ports.ts'
import { claimStateFolder } from './start/state-folder.ts'

/** `npm run demo`: plays scenes on three replicas of its own, and prints the results. */

const scenes: readonly Scene[] = [list, watch, large, sigterm, kill, freeze, join]

const usage = `npm run demo [-- [--installed] [SCENE...]]

${scenes.map(({ name, title }) => `  ${name.padEnd(8)} ${title}`).join('\n')}

Three replicas of kas (a fourth joins), a balancer, one agentk; the cluster is a real API server if KUBEBUILDER_ASSETS
holds one, else an embedded API double. With --installed, kas and agentk lie as in the images, in a
folder that goes with the demo. Exit status 0 if every scene held, 1 if one did not, 2 for a
wrong scene.
`
const project = resolve(import.meta.dirname, '..')
/** one more than run at first, for the scene of joining */
const written = replicaCount + 1
/** time for calls of a replica that leaves */
const graces = { listen: '2s', shutdown: '5s' }
/** so many lines that the double has a large log */
const doubleOptions = { logLineEveryMs: 0.005, pastLogLines: 1_000_000 }

async function main(): Promise<number> {
  const options = { help: { type: 'boolean' }, installed: { type: 'boolean' } } as const
  const { values, positionals } = parseArgs({ allowPositionals: true, options })
  const unknown = positionals.filter((wanted) => !scenes.some(({ name }) => name === wanted))
  if (values.help || unknown.length > 0) {
    print(unknown.length > 0 ? `There is no scene ${unknown.join(', ')}.\n\n${usage}` : usage)
    return unknown.length > 0 ? 2 : 0
  }
  const interrupted = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(name, () => interrupted.abort(new Error(`interrupted by ${name}`)))
  }
  const chosen = positionals.length === 0 ? scenes : scenes.filter(({ name }) => positionals.includes(name))
  const { signal } = interrupted
  if (!values.installed) return play(chosen, { signal })
  const installation = new TemporaryInstallation({ onStep: print })
  try {
    await installation.start(signal)
    return await play(chosen, { signal, programs: installation.programs })
  } catch (error) {
    print(`demo: FAILED: ${(error as Error).message}`)
    return 1
  } finally {
    await installation.stop()
  }
}

async function play(
  chosen: readonly Scene[],
  { signal, programs }: { signal: AbortSignal; programs?: Programs },
): Promise<number> {
  const { path } = await claimStateFolder(resolve(project, '.run/demo'))
  print(`files in ${path}`)
  const ports = await anyPorts(written)
  const stack = new LocalStack({
    folder: path,
    ports,
    kubeconfig: undefined,
    assets: process.env.KUBEBUILDER_ASSETS,
    graces,
    programs,
    first: replicaCount,
    doubleOptions,
    onStep: (text) => print(`starting ${text}`),
  })
  let failures: readonly string[]
  try {
    await stack.start(signal)
    failures = await playOn(stack, { chosen, kubernetesPort: ports.kubernetes, signal })
  } catch (error) {
    const { message, cause } = error as Error
    failures = [cause instanceof Error ? `${message}: ${cause.message}` : message]
    print(`NOT SO: ${failures[0]}`)
  }
  const failed = failures.length > 0
  await stack.stop(AbortSignal.abort(), { keepFolder: failed }) // a scene has shown how a replica leaves
  print(failed ? `demo: FAILED: ${failures.join('; ')}. Logs: ${path}` : `demo: ok, ${chosen.length} scenes`)
  if (!failed) await rm(path, { recursive: true, force: true })
  return failed ? 1 : 0
}

async function playOn(
  stack: LocalStack,
  { chosen, ...options }: { chosen: readonly Scene[]; kubernetesPort: number; signal: AbortSignal },
): Promise<readonly string[]> {
  const stage = new Stage(stack, { ...options, print })
  try {
    print(`\nThe cluster is ${stack.cluster.description}.\n`)
    await stage.table()
    for (const scene of chosen) {
      print(`\n${scene.title}`)
      const before = stage.failures.length
      await Promise.race([scene.play(stage), stack.failed])
      stage.say(stage.failures.length === before ? 'it held' : 'IT DID NOT HOLD')
    }
    print('')
    await stage.table()
    print('')
  } finally {
    await stage.close()
  }
  return stage.failures
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

process.exitCode = await main()
