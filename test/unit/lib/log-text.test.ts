import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { KasError } from '../../../src/lib/errors.ts'
import { createLogger } from '../../../src/lib/log.ts'

function written(write: (log: ReturnType<typeof createLogger>) => void): string {
  const lines: string[] = []
  const destination = { write: (line: string) => void lines.push(line) }
  write(createLogger({ level: 'info', format: 'text', destination }).child({ mod_name: 'tunnels' }))
  return lines.join('')
}

t.test('a line for people: time, level, part, sentence, fields', async (t) => {
  const line = written((log) => log.warn({ agent_id: '42', count: 3, net_address: 'two words' }, 'A sentence'))
  t.match(
    line,
    /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARN {2}tunnels: A sentence {2}agent_id=42 {2}count=3 {2}net_address="two words"\n$/,
  )
})

t.test('an error is named with its code and its causes, and a fault of the program with its stack', async (t) => {
  const cause = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
  const error = new KasError({ code: 'REPOSITORY_FAILED', detail: 'no answer' }, { cause })
  t.match(
    written((log) => log.error({ error }, 'It failed')),
    /ERROR tunnels: It failed {2}error="Repository: no answer" \(REPOSITORY_FAILED\), by "connect ECONNREFUSED" \(ECONNREFUSED\)\n$/,
  )
  const lines = written((log) => log.error({ error: new Error('a fault') }, 'It failed')).split('\n')
  t.match(lines[0], /error="a fault"$/)
  t.match(lines[1], /^ {4}at /)
})

t.test('what others have said is one word, makes no line of its own, and steers no terminal', async (t) => {
  const evil = '\u001b[2Jx\n2026-01-01T00:00:00.000Z ERROR forged'
  const line = written((log) => log.info({ path: evil, [evil]: 1, list: [evil], error: new Error(evil) }, evil))
  t.notOk(line.includes('\u001b'))
  for (const one of line.split('\n').slice(1, -1)) t.match(one, /^ {4}/)
})

t.test('threads write in the form of their program', async (t) => {
  const log = new URL('../../../src/lib/log.ts', import.meta.url)
  const create = `const { createLogger } = await import(${JSON.stringify(log.href)})`
  const thread = `${create}; createLogger({ level: 'info' }).info('of a thread')`
  const program = `${create}
    const { Worker } = await import('node:worker_threads')
    createLogger({ level: 'info', format: 'text' }).info('of the program')
    new Worker(new URL(${JSON.stringify(`data:text/javascript,${encodeURIComponent(thread)}`)}))`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const said = await text(child.stderr)
  t.match(said, /^\S+ INFO {2}of the program$/m)
  t.match(said, /^\S+ INFO {2}of a thread$/m)
})
