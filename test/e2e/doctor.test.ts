import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import type { Finding } from '../../src/lib/doctor/findings.ts'
import { eventually } from '../support/eventually.ts'
import { Processes, type TestProcess } from '../support/processes.ts'
import { mainOf } from '../support/programs.ts'

/** `kas doctor` and `agentk doctor` beside two real replicas: both sound, then one frozen, then one stopped. */

t.setTimeout(200_000)

interface Answer {
  readonly code: number
  readonly findings: readonly Finding[]
}

t.test('replicas that are well, one that is frozen, and none', async (t) => {
  const processes = await Processes.start(t)
  const { folder } = processes
  const write = async (name: string, text: string) => {
    await writeFile(join(folder, name), text, { mode: 0o600 })
    return join(folder, name)
  }
  const secret = await write('secret', Buffer.alloc(32, 7).toString('base64'))
  const directory = { file: await write('directory.yaml', '{}') }
  const ports = await freePorts(4)
  const [agents = 0, , gossip = 0, otherGossip = 0] = ports
  const configuration = (name: string, own: number, other: number, agentsPort: number) =>
    write(
      `${name}.yaml`,
      JSON.stringify({
        directory,
        agent: { listen: { address: `127.0.0.1:${agentsPort}` } },
        api: { listen: { address: '127.0.0.1:0' } },
        observability: { listen: { address: '127.0.0.1:0' } },
        private_api: { listen: { address: '127.0.0.1:0', authentication_secret_file: secret } },
        cluster: { name, listen: { address: `127.0.0.1:${own}` }, discovery: { static: [`127.0.0.1:${other}`] } },
        ops: { socket: join(folder, `${name}.sock`) },
      }),
    )
  const file = await configuration('kas-0', gossip, otherGossip, agents)
  const start = (configured: string): Promise<TestProcess> =>
    processes.spawn({ command: process.execPath, args: [mainOf('kas'), `--configuration-file=${configured}`] })
  const [one, other] = await Promise.all([start(file), start(await configuration('kas-1', otherGossip, gossip, 0))])
  const ask = async (program: 'kas' | 'agentk', args: string[]): Promise<Answer> => {
    const asked = await processes.spawn({
      command: process.execPath,
      args: [mainOf(program), 'doctor', ...args, '--output', 'json'],
      environment: { POD_NAME: 'agentk-0', POD_NAMESPACE: 'default' },
    })
    const { code, stdout } = await asked.ends()
    return { code, ...JSON.parse(stdout.toString()) }
  }
  const ofReplicas = async () => {
    const answer = await ask('kas', [`--configuration-file=${file}`])
    return { ...answer, replicas: answer.findings.filter(({ check }) => check === 'replicas') }
  }
  type OfReplicas = Awaited<ReturnType<typeof ofReplicas>>
  const until = (isSo: (answer: OfReplicas) => boolean) =>
    eventually(
      async () => {
        const answer = await ofReplicas()
        if (!isSo(answer)) throw new Error(JSON.stringify(answer.findings))
        return answer
      },
      { timeoutMs: 60_000 },
    )

  const isComplaint = ({ state }: Finding) => state === 'failed' || state === 'note'
  const well = await until(({ replicas, findings }) => replicas.length > 1 && !findings.some(isComplaint))
  t.equal(well.code, 0)
  t.ok(well.replicas.every(({ state }) => state === 'ok'))

  const token = await write('token', 'nobody-has-it')
  const refused = await ask('agentk', [
    `--kas-address=grpc://127.0.0.1:${agents}`,
    `--token-file=${token}`,
    '--server=http://127.0.0.1:1',
  ])
  t.equal(refused.code, 1)
  t.match(
    refused.findings.find(({ check }) => check === 'kas'),
    { state: 'failed', text: /unauthenticated/, advice: /kas does not take this token/ },
  )

  other.signal('SIGSTOP')
  const frozen = await until(({ replicas }) => replicas.some(({ text }) => text.startsWith('calls do not reach')))
  other.signal('SIGCONT')
  t.equal(frozen.code, 1)
  t.match(
    frozen.replicas.find(({ text }) => text.startsWith('calls do not reach')),
    { state: 'failed', subject: 'kas-0', text: /kas-1 at .* \(unreachable\)/, advice: /8155/ },
  )

  one.signal('SIGKILL')
  await one.exited
  const gone = await ofReplicas()
  t.equal(gone.code, 1)
  t.match(gone.replicas, [{ state: 'failed', text: /no kas listens on/, advice: /--pre/ }])
})
