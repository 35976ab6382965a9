import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { link, mkdir, readdir, stat, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { OpsSocket } from '../../../src/kas/servers/ops-socket/ops-socket.ts'
import { claimSocket, maxSocketFolderBytes } from '../../../src/lib/stale-socket.ts'
import { capturedLog } from '../../support/captured-log.ts'

t.setTimeout(120_000)
const rounds = 20
const path = 'ops' // short: the path of a socket is bounded

/** Leaves a stale socket, as a process does that is killed while it listens. */
async function leaveStale(): Promise<void> {
  const server = createServer()
  await once(server.listen('living'), 'listening')
  await link('living', path)
  server.close() // also removes the name 'living'
  await once(server, 'close')
}

function opsSocket(name: string): OpsSocket {
  return new OpsSocket({ answers: { '/status': () => ({ name }) }, log: capturedLog().log }, { path })
}

async function whoAnswers(): Promise<string> {
  const socket = connect(path)
  socket.end('GET /status HTTP/1.1\r\nHost: ops\r\nConnection: close\r\n\r\n')
  let text = ''
  for await (const chunk of socket) text += String(chunk)
  return text
}

/** A process that starts the socket on request and reports the result by IPC. */
function starter(t: Test): { child: ChildProcess; start: () => Promise<unknown>; stop: () => Promise<unknown> } {
  const child = fork(join(import.meta.dirname, 'socket-starter.ts'), [path], { env: {} })
  t.teardown(() => child.kill('SIGKILL'))
  const told = async (word: string) => {
    child.send(word)
    const [answer] = await once(child, 'message')
    return answer
  }
  return { child, start: () => told('start'), stop: () => told('stop') }
}

t.test('of starts at the same time on one stale socket exactly one wins, and it is the one that answers', async (t) => {
  t.chdir(t.testdir())
  for (let round = 0; round < rounds; round++) {
    await leaveStale()
    const sockets = Array.from({ length: 2 + (round % 7) }, (_, i) => opsSocket(`number ${i}.`))
    const ends = await Promise.allSettled(sockets.map((socket) => socket.start()))
    const winners = ends.flatMap(({ status }, i) => (status === 'fulfilled' ? [i] : []))
    const losers = ends.flatMap((end) => (end.status === 'rejected' ? [String(end.reason.message)] : []))
    t.equal(winners.length, 1, `round ${round}: one of ${sockets.length}`)
    t.strictSame(
      losers.filter((text) => text !== `another kas listens on ${path}`),
      [],
      'each other one is told why',
    )
    t.match(await whoAnswers(), `number ${winners[0]}.`)
    await Promise.all(sockets.map((socket) => socket.stop()))
    t.strictSame(await readdir('.'), [], 'nothing is left behind')
  }
})

t.test('so too of several processes', async (t) => {
  t.chdir(t.testdir())
  const starters = Array.from({ length: 4 }, () => starter(t))
  await Promise.all(starters.map(({ child }) => once(child, 'message')))
  for (let round = 0; round < rounds; round++) {
    if (round % 4 !== 0 || round === 0) await leaveStale()
    const started = starters.slice(0, 2 + (round % 3))
    const answers = await Promise.all(started.map(({ start }) => start()))
    const winner = answers.indexOf('listens')
    t.strictSame(
      answers.filter((_, i) => i !== winner),
      Array(answers.length - 1).fill(`another kas listens on ${path}`),
      `round ${round}: one of ${answers.length}`,
    )
    t.match(await whoAnswers(), `process ${started[winner]?.child.pid}.`)
    if (round % 4 !== 3) await Promise.all(started.map(({ stop }) => stop()))
    else {
      const [killed] = starters.splice(winner, 1, starter(t)) as [ReturnType<typeof starter>]
      killed.child.kill('SIGKILL') // the next round finds its socket
      await once(killed.child, 'exit')
      await once(starters[winner]?.child as ChildProcess, 'message')
      t.ok((await stat(path)).isSocket())
    }
  }
})

t.test('a start that was killed while it took the place stops no later one', async (t) => {
  t.chdir(t.testdir())
  await leaveStale()
  const killed = starter(t)
  await once(killed.child, 'message')
  t.equal((await killed.child.send('claim')) && (await once(killed.child, 'message'))[0], 'claimed')
  const second = opsSocket('second.')
  await t.rejects(second.start(), { message: `another kas listens on ${path}` }, 'as long as it lives')
  killed.child.kill('SIGKILL')
  await once(killed.child, 'exit')
  await second.start()
  t.match(await whoAnswers(), 'second.')
  await second.stop()
  t.strictSame(await readdir('.'), [])
})

t.test('the longest folder that the configuration takes has room', async (t) => {
  t.chdir(t.testdir())
  const folder = 'f'.repeat(maxSocketFolderBytes)
  await mkdir(folder)
  const release = await claimSocket(join(folder, 'ops'))
  await t.rejects(claimSocket(join(folder, 'ops')), { code: 'EADDRINUSE' })
  await (await claimSocket(join(folder, 'another')))()
  await release()
  t.strictSame(await readdir(folder), [])
  await t.rejects(claimSocket(join(`${folder}f`, 'ops')), { code: 'ENAMETOOLONG', message: /longer than 84 bytes/ })
})

t.test('one that listens and does not answer is not removed, nor is a file', async (t) => {
  t.chdir(t.testdir())
  const silent = createServer(() => undefined)
  await once(silent.listen(path), 'listening')
  const { ino } = await stat(path)
  await t.rejects(opsSocket('x').start(), { code: 'EADDRINUSE' })
  t.equal((await stat(path)).ino, ino)
  silent.close()
  await once(silent, 'close')
  await writeFile(path, 'mine')
  await t.rejects(opsSocket('x').start(), { code: 'EADDRINUSE' })
  t.ok((await stat(path)).isFile())
})
