import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import type { StatusReport } from '../../src/kas/servers/ops-socket/status-report.ts'
import { askSocket } from '../support/ask-socket.ts'
import { eventually } from '../support/eventually.ts'
import { createKasApp } from '../support/kas-app.ts'

/** The replicas' secret changes by two rolling restarts, by configuration alone. */

interface Ground {
  readonly folder: string
  readonly ports: readonly number[]
}

async function ground(t: Test): Promise<Ground> {
  const folder = await mkdtemp(join(tmpdir(), 'secret-rotation-'))
  t.teardown(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'directory.yaml'), 'projects: []\nagents: []\n', { mode: 0o600 })
  for (const [name, byte] of [
    ['old', 1],
    ['new', 2],
  ] as const) {
    await writeFile(join(folder, name), Buffer.alloc(32, byte).toString('base64'))
  }
  return { folder, ports: await freePorts(3) }
}

/** @param secrets - names of files: the secret, and the previous one */
function createReplica(t: Test, { folder, ports }: Ground, i: number, secrets: readonly [string, string?]) {
  const [secret, previous] = secrets.map((name) => name && join(folder, name))
  const socket = join(folder, `kas-${i}`)
  const listen = { address: '127.0.0.1:0', listen_grace_period: '0s' }
  const configuration = {
    directory: { file: join(folder, 'directory.yaml') },
    agent: { listen },
    private_api: { listen: { ...listen, authentication_secret_file: secret } },
    observability: { listen: { address: '127.0.0.1:0' } },
    ops: { socket },
    cluster: {
      name: `kas-${i}`,
      listen: { address: `127.0.0.1:${ports[i]}` },
      discovery: { static: ports.map((port) => `127.0.0.1:${port}`) },
      ...(previous === undefined ? {} : { previous_authentication_secret_file: previous }),
    },
  }
  const { app } = createKasApp(t, configuration)
  return { app, socket }
}

const knows = (socket: string, expected: string) =>
  eventually(async () => {
    const { members = [] } = (await askSocket(socket, '/status')) as StatusReport
    const names = members.filter(({ reach }) => /^(self|reachable)$/.test(reach)).map(({ name }) => name)
    if (names.join(' ') !== expected) throw new Error(`${names.join(' ')} instead of ${expected}`)
  })

t.test('one that has both secrets works with those that have either', async (t) => {
  const place = await ground(t)
  const secrets = [['old'], ['new', 'old'], ['new']] as const
  const replicas = secrets.map((names, i) => createReplica(t, place, i, names))
  for (const { app } of replicas) await app.start()
  const [before, both, after] = replicas.map(({ socket }) => socket) as [string, string, string]
  await knows(both, 'kas-0 kas-1 kas-2')
  await knows(before, 'kas-0 kas-1')
  await knows(after, 'kas-1 kas-2')
})

t.test('a file that is not there stops the start, and is named', async (t) => {
  const { app } = createReplica(t, await ground(t), 0, ['new', 'absent'])
  await t.rejects(app.start(), {
    spec: { code: 'SETTINGS_INVALID' },
    message: /absent: cluster\.previous_authentication_secret_file: cannot be read/,
  })
})
