import { spawnSync } from 'node:child_process'
import { cpSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '..', '..')
const source = join(root, 'src', 'proto')

/** Path below `dir` to content, of all files. */
function contents(dir: string): Record<string, string> {
  const paths = readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((path) =>
    statSync(join(dir, path)).isFile(),
  )
  return Object.fromEntries(paths.sort().map((path) => [path, readFileSync(join(dir, path), 'utf8')]))
}

t.test('the generated code is what the .proto files give, offline', async (t) => {
  const dir = t.testdir()
  cpSync(source, dir, {
    recursive: true,
    filter: (path) => !path.endsWith(join('proto', 'gen')) && !path.endsWith('.ts'),
  })
  const { status, stderr } = spawnSync(join(root, 'node_modules', '.bin', 'buf'), ['generate'], {
    cwd: dir,
    encoding: 'utf8',
    env: {
      ...process.env,
      PATH: `${join(root, 'node_modules', '.bin')}:${process.env.PATH}`,
      HTTPS_PROXY: 'http://127.0.0.1:1',
    },
  })
  t.equal(status, 0, stderr)
  const fresh = contents(join(dir, 'gen'))
  t.ok(Object.keys(fresh).length > 0)
  t.strictSame(Object.keys(fresh), Object.keys(contents(join(source, 'gen'))))
  for (const [path, content] of Object.entries(contents(join(source, 'gen')))) {
    t.equal(fresh[path] === content, true, `${path} is current (else: npm run proto)`)
  }
})
