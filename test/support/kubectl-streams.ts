import assert from 'node:assert/strict'
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { eventually } from './eventually.ts'
import type { KubectlOperation, KubectlSide } from './kubectl-side.ts'
import type { TestProcess } from './processes.ts'

/** content for `exec` and `cp`: more than any window or buffer on the way */
const payload = randomBytes(1_000_000)
const digest = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

type Form = NonNullable<KubectlOperation['form']>

/** Operations on the log of a running pod, of a Deployment `web`. */
export const logOperations: readonly KubectlOperation[] = [
  {
    name: 'logs',
    async run({ kubectl }) {
      const said = await kubectl.ok(['logs', 'deployment/web'])
      assert.match(said, /^hello from the pod\n/)
      return said.split('\n')[0] ?? ''
    },
  },
  {
    name: 'logs --follow',
    async run({ kubectl, writeLogLine }) {
      const logs = await kubectl.start(['logs', '--follow', 'deployment/web'])
      await logs.says(/^hello from the pod\n/)
      for (const mark of [randomUUID(), randomUUID()]) {
        await writeLogLine(mark)
        await logs.says(new RegExp(`^${mark}$`, 'm'))
      }
      await killed(logs)
      return 'followed'
    },
  },
]

/** Operations on a running pod of a Deployment `web`, each on a connection of its own. */
export const streamOperations: readonly KubectlOperation[] = (['WebSocket', 'SPDY'] as const).flatMap((form) => [
  { name: 'exec, 1 MB through cat', form, run: (side: KubectlSide) => execWithInput(side, form) },
  { name: 'exec, exit status', form, run: (side: KubectlSide) => execStatus(side, form) },
  { name: 'cp, both ways', form, needs: ['tar'], run: (side: KubectlSide) => copies(side, form) },
  { name: 'attach', form, run: (side: KubectlSide) => attaches(side, form) },
  { name: 'port-forward', form, run: (side: KubectlSide) => forwards(side, form) },
])

const environmentOf = (form: Form) => ({
  KUBECTL_REMOTE_COMMAND_WEBSOCKETS: String(form === 'WebSocket'),
  KUBECTL_PORT_FORWARD_WEBSOCKETS: String(form === 'WebSocket'),
})

async function execWithInput({ kubectl }: KubectlSide, form: Form): Promise<string> {
  const args = ['exec', '--stdin', 'deployment/web', '--', 'cat']
  const { code, stdout, stderr } = await kubectl.run(args, { stdin: payload, environment: environmentOf(form) })
  assert.equal(code, 0, stderr)
  assert.equal(digest(stdout), digest(payload))
  return `${stdout.length} bytes`
}

async function execStatus({ kubectl }: KubectlSide, form: Form): Promise<string> {
  const args = ['exec', 'deployment/web', '--', 'sh', '-c', 'echo to-stdout; echo to-stderr >&2; exit 3']
  const { code, stdout, stderr } = await kubectl.run(args, { environment: environmentOf(form) })
  assert.equal(code, 3, stderr)
  assert.equal(stdout.toString(), 'to-stdout\n')
  assert.match(stderr, /^to-stderr\n/)
  return `${code} ${stderr}`
}

async function copies({ kubectl, admin, folder }: KubectlSide, form: Form): Promise<string> {
  const environment = environmentOf(form)
  const pods = await admin.get(`/api/v1/namespaces/${kubectl.namespace}/pods?labelSelector=app%3Dweb`)
  const pod = pods.items[0].metadata.name
  const there = `copied-${kubectl.namespace}-${form}`
  await writeFile(join(folder, 'sent'), payload)
  await kubectl.ok(['cp', join(folder, 'sent'), `${pod}:${there}`], { environment })
  await kubectl.ok(['cp', `${pod}:${there}`, join(folder, there)], { environment })
  const back = await readFile(join(folder, there))
  assert.equal(digest(back), digest(payload))
  return `${back.length} bytes`
}

async function attaches({ kubectl, writeLogLine }: KubectlSide, form: Form): Promise<string> {
  const attach = await kubectl.start(['attach', 'deployment/web'], { environment: environmentOf(form) })
  const mark = randomUUID()
  await eventually(async () => {
    await writeLogLine(mark) // no event shows when it follows; earlier lines are not shown
    await attach.says(new RegExp(mark), { timeoutMs: 300 })
  })
  await killed(attach)
  return 'followed'
}

async function forwards({ kubectl }: KubectlSide, form: Form): Promise<string> {
  const forward = await kubectl.start(['port-forward', 'deployment/web', ':80'], { environment: environmentOf(form) })
  const [, port] = await forward.says(/Forwarding from 127\.0\.0\.1:(\d+) -> 80/)
  const seen: string[] = []
  for (const path of ['/one', '/two']) {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: 'close' } })
    seen.push(await answer.text())
  }
  await killed(forward)
  assert.deepEqual(seen, ['hello from the pod: GET /one\n', 'hello from the pod: GET /two\n'])
  return seen.join('')
}

async function killed(running: TestProcess): Promise<void> {
  running.signal('SIGKILL')
  await running.exited
}
