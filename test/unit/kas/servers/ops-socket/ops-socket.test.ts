import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import t, { type Test } from 'tap'
import { OpsSocket } from '../../../../../src/kas/servers/ops-socket/ops-socket.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { capturedLog } from '../../../../support/captured-log.ts'

const answers = {
  '/status': (query: URLSearchParams) => ({ agent: query.get('agent') }),
  '/wrong': () => {
    throw new KasError({ code: 'INVALID_MESSAGE', detail: 'so not' })
  },
  '/fault': () => {
    throw new TypeError('a secret detail')
  },
}

function create(t: Test, path: string) {
  const { log, lines } = capturedLog()
  const socket = new OpsSocket({ answers, log }, { path })
  t.teardown(() => socket.stop())
  return { socket, lines }
}

function ask(socketPath: string, path: string, method = 'GET'): Promise<[number | undefined, string]> {
  return new Promise((resolve, reject) => {
    const question = request({ socketPath, path, method }, async (response) => {
      let text = ''
      for await (const chunk of response) text += String(chunk)
      resolve([response.statusCode, text])
    })
    question.once('error', reject)
    question.end()
  })
}

t.test('answers in JSON, for its user alone', async (t) => {
  t.chdir(t.testdir()) // a short path, because the path of a socket is bounded
  const before = process.umask()
  const { socket, lines } = create(t, 'ops')
  await socket.start()
  t.equal(process.umask(), before)
  t.equal((await stat('ops')).mode & 0o777, 0o600)
  t.strictSame(await ask('ops', '/status?agent=42'), [200, '{"agent":"42"}\n'])
  t.strictSame(await ask('ops', '/wrong'), [400, '{"error":"so not"}\n'])
  t.strictSame(await ask('ops', '/toString'), [404, '{"error":"not found"}\n'])
  t.equal((await ask('ops', '/status', 'POST'))[0], 404)
  t.equal((await ask('ops', '//'))[0], 500, 'what is no address ends nothing')
  const [status, text] = await ask('ops', '/fault')
  t.equal(status, 500)
  t.notMatch(text, /secret/)
  t.match(JSON.stringify(lines), /a secret detail/)
  await socket.stop()
  await socket.stop()
  await t.rejects(stat('ops'), { code: 'ENOENT' })
})

t.test('takes the place of one that was killed, not of one that lives, nor of a file', async (t) => {
  t.chdir(t.testdir())
  const program = `require('node:net').createServer().listen('ops', () => process.kill(process.pid, 'SIGKILL'))`
  spawnSync(process.execPath, ['-e', program], { env: {} })
  t.ok((await stat('ops')).isSocket(), 'left behind')
  const { socket } = create(t, 'ops')
  await socket.start()
  await t.rejects(create(t, 'ops').socket.start(), { code: 'EADDRINUSE' })
  t.equal((await ask('ops', '/status'))[0], 200, 'the first goes on')
  await writeFile('file', 'mine')
  await t.rejects(create(t, 'file').socket.start(), { code: 'EADDRINUSE' })
  t.equal(await readFile('file', 'utf8'), 'mine')
})

t.test('a reader of lines who stops is cut, and so many at once are let in', async (t) => {
  t.chdir(t.testdir())
  const listeners = new Set<(line: string) => void>()
  const follow = (listener: (line: string) => void) => {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }
  const streams = { '/lines': () => ({ lines: ['a\n', 'b\n'], follow }) }
  const socket = new OpsSocket({ answers, streams, log: capturedLog().log }, { path: 'ops' })
  t.teardown(() => socket.stop())
  await socket.start()
  const open = async () => {
    const [response] = (await once(request({ socketPath: 'ops', path: '/lines' }).end(), 'response')) as [
      IncomingMessage,
    ]
    return response
  }
  const reading = await open()
  t.equal(reading.headers['content-type'], 'application/x-ndjson')
  t.equal(String(await once(reading, 'data')), 'a\nb\n')
  const stopped = await open()
  stopped.on('error', () => undefined)
  const others = await Promise.all(Array.from({ length: 14 }, open))
  t.equal((await ask('ops', '/lines'))[0], 429)
  for (const other of [...others, reading]) other.destroy()
  const closed = new Promise((resolve) => stopped.once('close', resolve))
  while (listeners.size > 1) await new Promise(setImmediate)
  for (let mib = 0; mib < 16 && listeners.size > 0; mib++) {
    for (const listener of listeners) listener('x'.repeat(1024 * 1024))
    await new Promise(setImmediate)
  }
  t.equal(listeners.size, 0)
  stopped.resume()
  await closed
})
