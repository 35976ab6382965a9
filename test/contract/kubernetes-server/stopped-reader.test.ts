import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'
import type { AccessLine } from '../../../src/kas/access-log/access-line.ts'

/** The reader of stdout stops while calls continue (doc/reference/access-log.md "Where it goes"). */

const program = new URL('access-log-program.ts', import.meta.url).pathname
/** more lines than fit into 2 MiB */
const calls = 8000

t.test('calls go on, and each has its line, or is counted', { timeout: 120_000 }, async (t) => {
  const run = async () => {
    const child = spawn(process.execPath, [program, String(calls)], { stdio: ['pipe', 'pipe', 'pipe'] })
    t.teardown(() => child.kill('SIGKILL'))
    let text = ''
    child.stdout.setEncoding('utf8')
    child.stdout.pause()
    const [said] = await once(child.stderr, 'data') // all calls have ended
    child.stdout.on('data', (chunk: string) => {
      text += chunk
    })
    child.stdout.resume()
    child.stdin.write('end')
    await once(child.stdout, 'end')
    const lines = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as AccessLine)
    return { lines, took: JSON.parse(String(said)) as { p50: number; p99: number } }
  }
  const stopped = await run()
  t.comment(`calls with a reader that has stopped: ${JSON.stringify(stopped.took)} ms`)
  const ends = stopped.lines.filter(({ event }) => event === 'end')
  const lost = stopped.lines.filter(({ event }) => event === 'lost')
  const count = lost.reduce((sum, line) => sum + (line.count ?? 0), 0)
  t.ok(count > 0, `${count} were lost`)
  t.equal(ends.length + count, calls, 'exactly')
  t.equal(new Set(ends.map(({ name }) => name)).size, ends.length, 'and none is there twice')
})
