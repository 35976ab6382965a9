import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { KasError } from '../../../src/lib/errors.ts'
import { createLogger } from '../../../src/lib/log.ts'
import { capturedLog } from '../../support/captured-log.ts'

/** Returns the log line for `error`. */
function told(error: unknown): { error: Record<string, unknown> } {
  const lines: string[] = []
  const log = createLogger({ level: 'info', destination: { write: (line) => void lines.push(line) } })
  log.child({ mod_name: 'm' }).warn({ error }, 'A sentence')
  return JSON.parse(lines[0] ?? '')
}

// wire: log.line, log.mod_name, log.agent_id
t.test('one JSON object a line, with the fields that operators know', async (t) => {
  const lines: string[] = []
  const log = createLogger({ level: 'info', destination: { write: (line) => void lines.push(line) } })
  log.debug('not told')
  log.child({ mod_name: 'm' }).warn({ agent_id: '42', error: new Error('cause') }, 'A sentence')
  t.equal(lines.length, 1)
  const line = JSON.parse(lines[0] ?? '') as Record<string, unknown>
  t.match(line, { level: 'warn', mod_name: 'm', agent_id: '42', msg: 'A sentence', error: { message: 'cause' } })
  t.match(line.time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  t.notOk('pid' in line || 'hostname' in line)
})

t.test('a KasError tells its code, its data and why it came', async (t) => {
  const refused = Object.assign(new Error('connect ECONNREFUSED 10.0.0.1:443'), { code: 'ECONNREFUSED', port: 443 })
  const cause = new KasError({ code: 'REPOSITORY_FAILED', detail: 'no answer' }, { cause: refused })
  t.strictSame(told(new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs: 20_000 }, { cause })).error, {
    type: 'KasError',
    message: 'Agent connection not found. Is agent up to date and connected?',
    code: 'AGENT_NOT_CONNECTED',
    data: { waitedMs: 20_000 },
    cause: {
      type: 'KasError',
      message: 'Repository: no answer',
      code: 'REPOSITORY_FAILED',
      data: { detail: 'no answer' },
      cause: { type: 'Error', message: 'connect ECONNREFUSED 10.0.0.1:443', code: 'ECONNREFUSED' },
    },
  })
  t.strictSame(told(new KasError({ code: 'SHUTTING_DOWN' })).error, {
    type: 'KasError',
    message: 'kas is shutting down',
    code: 'SHUTTING_DOWN',
  })
})

t.test('data that JSON does not know', async (t) => {
  const details = new Uint8Array(3)
  const { error } = told(new KasError({ code: 'STATUS', grpc: 5, message: 'gone', details }))
  t.strictSame(error.data, { grpc: 5, message: 'gone', details: '3 bytes' })
  const limit = (2n ** 60n) as unknown as number
  t.strictSame(told(new KasError({ code: 'TOO_MANY_WAITING', limit })).error.data, { limit: '1152921504606846976' })
})

t.test('what is expected in operation comes without a stack', async (t) => {
  const expected: [Error, string][] = [
    [new DOMException('The operation was aborted due to timeout', 'TimeoutError'), 'TimeoutError'],
    [new DOMException('This operation was aborted', 'AbortError'), 'AbortError'],
    [Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }), 'Error'],
    [Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' }), 'Error'],
    [Object.assign(new Error('certificate has expired'), { code: 'CERT_HAS_EXPIRED' }), 'Error'],
    [Object.assign(new Error('self-signed'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }), 'Error'],
  ]
  for (const [error, type] of expected) {
    const line = told(error).error
    t.match(line, { type, message: error.message })
    t.notOk('stack' in line, error.message)
  }
})

t.test('a real dial that is refused', async (t) => {
  const socket = connect(1, '127.0.0.1')
  t.teardown(() => socket.destroy())
  const [error] = await once(socket, 'error').catch((thrown: unknown) => [thrown])
  t.strictSame(told(error).error, { type: 'Error', message: 'connect ECONNREFUSED 127.0.0.1:1', code: 'ECONNREFUSED' })
})

t.test('a name of several addresses tells each', async (t) => {
  const errors = [new Error('connect ECONNREFUSED ::1:80'), new Error('connect ECONNREFUSED 127.0.0.1:80')]
  const { error } = told(Object.assign(new AggregateError(errors), { code: 'ECONNREFUSED' }))
  t.strictSame(error, {
    type: 'AggregateError',
    message: 'connect ECONNREFUSED ::1:80; connect ECONNREFUSED 127.0.0.1:80',
    code: 'ECONNREFUSED',
  })
})

t.test('a fault of the program keeps its stack, also inside an INTERNAL', async (t) => {
  const fault = new TypeError('x is not a function')
  t.match(told(fault).error, { type: 'TypeError', stack: /x is not a function\n {4}at .*log\.test\.ts/ })
  const { error } = told(KasError.from(fault))
  t.match(error, { code: 'INTERNAL', cause: { type: 'TypeError', stack: /log\.test\.ts/ } })
  t.notOk('stack' in error)
  t.match(told(new KasError({ code: 'INTERNAL' })).error, { stack: /log\.test\.ts/ })
  const argument = Object.assign(new TypeError('bad'), { code: 'ERR_INVALID_ARG_TYPE' })
  t.match(told(argument).error, { code: 'ERR_INVALID_ARG_TYPE', stack: /log\.test\.ts/ })
})

t.test('only what is known of an error is told', async (t) => {
  const error = Object.assign(new Error('failed'), { headers: { authorization: 'Bearer secret' } })
  t.notMatch(JSON.stringify(told(error)), /secret/)
  t.strictSame(told({ token: 'secret' }).error, { type: 'object', message: '[object Object]' })
  t.strictSame(told({ message: 'half an error' }).error, { type: 'object', message: 'half an error' })
  t.strictSame(told('text').error, { type: 'string', message: 'text' })
})

t.test('a chain of causes ends', async (t) => {
  const error = new Error('itself')
  error.cause = error
  let length = 0
  for (let at = told(error).error; at; at = at.cause as Record<string, unknown>) length++
  t.equal(length, 6)
})

t.test('a line reads as the same, and steers no terminal on which it is read', async (t) => {
  const lines: string[] = []
  const log = createLogger({ level: 'info', destination: { write: (line) => void lines.push(line) } })
  const text = 'a\u001b[2J\u009b2J\u202e\u2028\n\u007f'
  log.child({ file: text }).info({ error: new Error(text) }, text)
  const [line = ''] = lines
  t.match(line, /^[ -~]+\n$/)
  t.match(JSON.parse(line), { file: text, msg: text, error: { message: text } })
})

t.test("Node's advice about authorities is left out, wherever it is in a line", async (t) => {
  const { log, lines } = capturedLog()
  const said = 'self-signed certificate; if the root CA is installed locally, try running Node.js with --use-system-ca'
  log.warn({ error: new Error('outer', { cause: new Error(said) }), reason: said }, said)
  const message = 'self-signed certificate'
  t.match(lines, [{ msg: message, reason: message, error: { cause: { message } } }])
  t.notMatch(JSON.stringify(lines), 'use-system-ca')
})

t.test('the program itself and its threads write to stderr, also a last line', async (t) => {
  const module = JSON.stringify(new URL('../../../src/lib/log.ts', import.meta.url))
  const log = (name: string) =>
    `const { createLogger } = await import(${module}); createLogger({ level: 'info' }).info(${JSON.stringify(name)})`
  const thread = `(async () => { ${log('of a thread')} })()`
  const program = `
    const { Worker } = await import('node:worker_threads')
    await new Promise((resolve) => new Worker(${JSON.stringify(thread)}, { eval: true }).once('exit', resolve))
    ${log('of the program')}
    process.exit()`
  const args = ['--input-type=module', '--eval', program]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  t.teardown(() => child.kill('SIGKILL'))
  const lines = (await text(child.stderr)).trim().split('\n')
  t.match(
    lines.map((line) => JSON.parse(line).msg),
    ['of a thread', 'of the program'],
  )
})
