import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'

/** Runs a bench with the smallest sizes, so that it still works when it is needed. Its figures are useless. */

const root = join(import.meta.dirname, '..', '..')
const run = promisify(execFile)

t.test('npm run bench -- views prints its figures', { timeout: 120_000 }, async (t) => {
  const sizes = { objects: 400, children: 60, seconds: 1, changes: 20, viewers: 1, before: 1 }
  const args = Object.entries(sizes).map(([name, count]) => `--${name}=${count}`)
  const words = ['bench/run.ts', 'views', '--alone', ...args]
  const { stdout } = await run('env', ['-u', 'NODE_OPTIONS', process.execPath, ...words], { cwd: root })
  const { bench, objects, results } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
  t.strictSame([bench, objects], ['views', sizes.objects])
  for (const figure of [
    'first list until a viewer has it, s',
    'GET while it lists, p99, ms',
    '20 changes a second: until seen, p99, ms',
    'the page of its children, 500 rows, ms',
    '20 changes a second among the children: until seen, p99, ms',
    'agentk, RSS after the list, MB',
  ]) {
    t.ok(results[figure] > 0, figure)
  }
})
