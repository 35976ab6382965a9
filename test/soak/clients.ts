import { createHash, randomBytes } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { EntryReplica } from '../support/entry-replica.ts'
import { Kubectl } from '../support/kubectl.ts'
import { assets } from '../support/kubectl-stack.ts'
import { NodesGround } from '../support/nodes/nodes-ground.ts'
import { onNodes, whySkipped } from '../support/nodes/on-nodes.ts'
import { box, createBox, playStreams, type StreamClient } from '../support/nodes/pod-streams.ts'
import { olderKubectl, olderVersion, passOlderKubectl } from '../support/older-kubectl.ts'
import { passPythonClient, pythonClient } from './clients/python-packages.ts'

/**
 * Programs and libraries at a real kubelet, through the holder and through another replica: the results are those
 * without kas.
 */

const bytes = 4 * 1024 * 1024
const copiedBytes = 50 * 1024 * 1024
const longCharacters = 100_000
const pauseSeconds = 60

interface Ground {
  readonly ground: NodesGround
  /** kubeconfigs; `direct` is for the API server itself */
  readonly ways: Readonly<Record<'direct' | 'holder' | 'other', string>>
}

const isOutside = process.env.KUBETEST_DIR === undefined
const isSkipped = isOutside && whySkipped() !== false
const older = isSkipped ? { lacks: 'not asked for' } : await olderKubectl()
const python = isSkipped ? { lacks: 'not asked for' } : await pythonClient()
const environment = { ...passOlderKubectl(older), ...passPythonClient(python) }

onNodes('clients', { file: import.meta.url, nodes: 1, timeoutMs: 1_800_000, environment }, async (t, cluster) => {
  const ground = await NodesGround.start(t, cluster)
  const entry = await EntryReplica.start(ground.processes, ground.stack)
  await createBox(cluster)
  const direct = join(cluster.folder, 'admin.kubeconfig')
  const ways = { direct, holder: ground.stack.kubeconfig('agent'), other: entry.kubeconfigs.agent }
  const parts = { ground, ways }
  await t.test('Python, kubernetes', { skip: 'lacks' in python && python.lacks }, (t) =>
    theSame(t, parts, {
      command: ['python3', join(import.meta.dirname, 'clients/python-client.py')],
      environment: { PYTHONPATH: 'folder' in python ? python.folder : '' },
    }),
  )
  await t.test('@kubernetes/client-node', (t) =>
    theSame(t, parts, { command: [process.execPath, join(import.meta.dirname, 'clients/node-client.ts')] }),
  )
  for (const way of ['holder', 'other'] as const) {
    const through = { kubeconfig: ways[way] }
    const today = ground.kubectl.with(through)
    const skip = 'lacks' in older && older.lacks
    const { processes } = ground
    const before = new Kubectl({ processes, assets: 'folder' in older ? older.folder : assets }, through)
    const clients: StreamClient[] = [
      { name: `kubectl, WebSocket, ${way}`, kubectl: today, protocol: 'WebSocket', skip: false },
      { name: `kubectl, SPDY, ${way}`, kubectl: today, protocol: 'SPDY', skip: false },
      { name: `kubectl ${olderVersion}, SPDY, ${way}`, kubectl: before, protocol: 'SPDY', skip },
    ]
    for (const { name, skip, done } of playStreams(clients, ground, Promise.resolve()))
      await t.test(name, { skip }, (t) => t.resolves(done ?? Promise.resolve()))
    for (const client of clients) {
      if (client.skip) continue
      await t.test(`${client.name}: ${copiedBytes / 2 ** 20} MiB, there and back`, () => copies(t, ground, client))
      await t.test(`${client.name}: a command of ${longCharacters} characters`, () => longCommand(t, client))
      await t.test(`${client.name}: a reader that pauses for ${pauseSeconds} s`, () => pauses(t, client))
    }
  }
})

/** Checks that a program prints the same with and without kas. */
async function theSame(
  t: Test,
  { ground, ways }: Ground,
  program: { readonly command: readonly string[]; readonly environment?: Readonly<Record<string, string>> },
): Promise<void> {
  const [command = '', ...args] = program.command
  const see = async (kubeconfig: string): Promise<Record<string, unknown>> => {
    const { environment = {} } = program
    const all = [...args, kubeconfig, box.namespace, box.pod, String(bytes)]
    const running = await ground.processes.spawn({ command, args: all, environment })
    const { code, stdout, stderr } = await running.exited
    if (code !== 0) throw new Error(`${command} ended with ${code}: ${stderr}`)
    return JSON.parse(stdout.toString())
  }
  const expected = await see(ways.direct)
  const [holder, other] = [await see(ways.holder), await see(ways.other)]
  for (const [name, seen] of Object.entries(expected)) {
    await t.test(name, async (t) => {
      if (/Error|nothing came/.test(String(seen))) t.comment(`also past kas: ${seen}`)
      const all = [seen, holder[name], other[name]].map((each) => JSON.stringify(each))
      if (new Set(all).size > 1) t.comment(`past kas, at the holder, at another replica: ${all.join(', ')}`)
      t.strictSame(holder[name], seen, 'at the holder')
      t.strictSame(other[name], seen, 'at another replica')
    })
  }
}

const digest = (data: Uint8Array) => createHash('sha256').update(data).digest('hex')
const environmentOf = ({ protocol }: StreamClient) => ({
  KUBECTL_REMOTE_COMMAND_WEBSOCKETS: String(protocol === 'WebSocket'),
})

async function copies(t: Test, { processes }: NodesGround, client: StreamClient): Promise<void> {
  const folder = join(processes.folder, randomBytes(8).toString('hex'))
  const data = randomBytes(copiedBytes)
  await mkdir(folder)
  await writeFile(join(folder, 'sent'), data)
  const kubectl = client.kubectl.with({ namespace: box.namespace })
  const copy = async (from: string, to: string) => {
    const running = await kubectl.start(['cp', from, to], { environment: environmentOf(client) })
    const { code, stderr } = await running.exited
    t.equal(code, 0, stderr)
  }
  await copy(join(folder, 'sent'), `${box.pod}:/tmp/copied`)
  await copy(`${box.pod}:/tmp/copied`, join(folder, 'back'))
  t.equal(digest(await readFile(join(folder, 'back'))), digest(data))
}

async function longCommand(t: Test, client: StreamClient): Promise<void> {
  const kubectl = client.kubectl.with({ namespace: box.namespace })
  const args = ['exec', box.pod, '--', 'sh', '-c', 'echo $' + '{#0}', 'a'.repeat(longCharacters)]
  const { code, stdout, stderr } = await kubectl.run(args, { environment: environmentOf(client) })
  t.equal(code, 0, stderr)
  t.equal(stdout.toString(), `${longCharacters}\n`)
}

/** Pauses as `kubectl exec … | less` and Ctrl-S do. */
async function pauses(t: Test, client: StreamClient): Promise<void> {
  const kubectl = client.kubectl.with({ namespace: box.namespace })
  const read = `(head -c 1000; sleep ${pauseSeconds}; cat) | sha256sum`
  const command = `yes kas | head -c ${copiedBytes}`
  const running = await kubectl.startPiped(['exec', box.pod, '--', 'sh', '-c', command], read, {
    environment: environmentOf(client),
  })
  const { code, stdout, stderr } = await running.exited
  t.equal(code, 0, stderr)
  t.equal(stdout.toString().split(' ')[0], digest(Buffer.alloc(copiedBytes, 'kas\n')))
}
