import { rm } from 'node:fs/promises'
import { relative, resolve } from 'node:path'
import { lastOffset, readStartArguments } from './setup/start-arguments.mjs'
import { clusterKind } from './start/cluster.ts'
import { exampleFor } from './start/example-repository.ts'
import { LocalStack } from './start/local-stack.ts'
import { choosePorts } from './start/ports.ts'
import { PushWatch } from './start/push-watch.ts'
import { tableOf, viewPlaced, viewReplicas } from './start/replica-table.ts'
import { screenOf } from './start/screen.ts'
import { claimStateFolder } from './start/state-folder.ts'

/** `npm start`: runs three replicas of kas behind a balancer, an agentk and a cluster, until Ctrl-C. */

const usage = `npm start [-- OPTIONS]

  --kubeconfig FILE  the cluster to serve; else a real API server if KUBEBUILDER_ASSETS holds one,
                     else an embedded API double. No cluster that was not named is ever touched.
  --port-base N      ports N to N + ${lastOffset}; else 8150 to ${8150 + lastOffset}, or the next free hundred
  --help
`
const project = resolve(import.meta.dirname, '..')

async function main(): Promise<number> {
  const given = readStartArguments(process.argv.slice(2))
  if (!given) return print(usage)
  const interrupted = onSignals()
  const { path, number } = await claimStateFolder(resolve(project, '.run'))
  const folder = relative(process.cwd(), path) || '.'
  let chosen: Awaited<ReturnType<typeof choosePorts>>
  try {
    chosen = await choosePorts(given.portBase, number - 1)
  } catch (error) {
    await rm(path, { recursive: true, force: true })
    throw error
  }
  const { kubeconfig } = given
  const assets = process.env.KUBEBUILDER_ASSETS
  const example = await exampleFor(clusterKind({ kubeconfig, assets }))
  const table = async () => tableOf(await viewReplicas(stack.replicas))
  const stack = new LocalStack({
    folder: path,
    ports: chosen.ports,
    kubeconfig,
    assets,
    example: example?.files,
    broken: true,
    onStep: (text) => print(`starting ${text}\n`),
    onLost: ({ name }) => {
      print(`\n${name} has ended, the others go on.\n`)
      const answers = stack.answers(chosen.ports.kubernetes, interrupted.first)
      answers.then(async () => print(`${indented(await table())}\n`)).catch(() => undefined) // interrupted meanwhile
    },
  })
  const pushes = new PushWatch({ folder: path, replicas: stack.replicas })
  try {
    await stack.start(interrupted.first)
    pushes.start()
    const proxied = ['HTTPS_PROXY', 'https_proxy', 'ALL_PROXY', 'all_proxy'].some((name) => process.env[name])
    print(
      `\n${screenOf({ folder, number, chosen, cluster: stack.cluster, example, table: tableOf(await viewPlaced(stack.replicas)), proxied })}`,
    )
    await Promise.race([interrupted.waited, stack.failed])
  } catch (error) {
    if (!interrupted.first.aborted) {
      pushes.stop()
      await stack.stop(interrupted.second, { keepFolder: true })
      throw error
    }
  }
  print('\nstopping\n')
  pushes.stop()
  await stack.stop(interrupted.second)
  return 0
}

/** Returns signals: the first interrupt asks for an orderly end, the second for one at once. */
function onSignals() {
  const first = new AbortController()
  const second = new AbortController()
  const waited = Promise.withResolvers<void>()
  const onSignal = () => {
    if (first.signal.aborted) second.abort()
    first.abort()
    waited.resolve()
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal)
  return { first: first.signal, second: second.signal, waited: waited.promise }
}

function indented(lines: readonly string[]): string {
  return lines.map((line) => `\n  ${line}`).join('')
}

function print(text: string): 0 {
  process.stdout.write(text)
  return 0
}

process.stdout.on('error', () => undefined) // the terminal is closed: SIGHUP reports it
try {
  process.exitCode = await main()
} catch (error) {
  process.stderr.write(`\nnpm start: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
}
