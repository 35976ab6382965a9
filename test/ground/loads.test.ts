import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'

/**
 * Modules that the programs load. A command must answer at once, and each loaded module costs memory in each process.
 */

const root = join(import.meta.dirname, '..', '..')
const run = promisify(execFile)

/** runs before the program; reports at exit the loaded packages, own files, and `fetch` if Node loaded its own */
const recorder = `
import { registerHooks } from 'node:module'
const seen = new Set()
registerHooks({ load: (url, context, next) => (seen.add(url), next(url, context)) })
process.on('exit', () => {
  const names = [...seen].map((url) => /.*\\/node_modules\\/((?:@[^/]+\\/)?[^/]+)\\//.exec(url)?.[1] ?? (url.includes('/src/') ? 'own' : ''))
  if (process.moduleLoadList.some((name) => name.endsWith('deps/undici/undici'))) names.push('fetch')
  process.stderr.write('\\nloaded ' + JSON.stringify(names.filter(Boolean)) + '\\n')
})`

/** Returns the number of loaded files by package; `own`: files of this project. */
async function loaded(...words: string[]): Promise<Record<string, number>> {
  const args = ['--import', `data:text/javascript,${encodeURIComponent(recorder)}`, ...words]
  const failed = (error: { stderr: string }) => error // a command may fail; it still reports its loaded files
  // otherwise ws loads an optional module if node_modules has it
  const env = { ...process.env, WS_NO_BUFFER_UTIL: '1' }
  const { stderr } = await run(process.execPath, args, { cwd: root, env, maxBuffer: 2 ** 24 }).catch(failed)
  const [, names] = /^loaded (.*)$/m.exec(stderr) ?? []
  if (names === undefined) throw new Error(stderr)
  const counts: Record<string, number> = {}
  for (const name of JSON.parse(names) as string[]) counts[name] = (counts[name] ?? 0) + 1
  return counts
}
const imported = (...files: string[]) => {
  const urls = files.map((file) => JSON.stringify(pathToFileURL(join(root, 'src', file)).href))
  return loaded('--input-type=module', '--eval', urls.map((url) => `await import(${url})`).join('\n'))
}
const packages = (counts: Record<string, number>) => Object.keys(counts).filter((name) => name !== 'own')

t.test('commands load themselves alone', async (t) => {
  const kas = 'src/kas/main.ts'
  const commands = [
    [kas, '--help'],
    [kas, '--version'],
    ['src/agentk/main.ts', '--help'],
    ['src/agentk/main.ts', '--version'],
    [kas, 'status', '--socket', '/nowhere/ops.sock'],
    [kas, 'route', '--agent', '1', '--socket', '/nowhere/ops.sock'],
    ...['agent', 'token', 'user', 'kubeconfig'].map((word) => [kas, word, '--help']),
  ]
  for (const words of commands) {
    const counts = await loaded(...words)
    t.strictSame(packages(counts), ['fastest-levenshtein'], words.join(' '))
    t.ok((counts.own ?? 0) <= 30, `${words.join(' ')}: ${counts.own} files`)
  }
})

t.test('the thread of views has no schema, with CEL either', async (t) => {
  const files = ['agentk/modules/views/thread/cluster-cache.ts', 'agentk/health/custom/custom-rule.ts']
  const names = packages(await imported(...files))
  t.ok(names.includes('@bufbuild/cel'))
  t.notOk(names.includes('zod'))
})

t.test('the soak is no program of tap, which would end it', async (t) => {
  t.notOk('tap' in (await loaded('test/soak/soak.ts', '--help')))
})

t.test('a command that edits the directory file loads what reads it', async (t) => {
  const counts = await loaded('src/kas/main.ts', 'user', 'create', 'ada', '--directory', '/nowhere/directory.yaml')
  t.strictSame(packages(counts).sort(), ['fastest-levenshtein', 'yaml', 'zod'])
})

t.test('agentk', async (t) => {
  const counts = await imported('agentk/app.ts', 'agentk/config/config.ts', 'agentk/cluster/load-cluster.ts')
  const expected = ['@bufbuild/protobuf', '@opentelemetry/api', 'pino', 'prom-client', 'undici', 'ws']
  const ofThose = ['@js-sdsl/ordered-map', '@pinojs/redact', 'atomic-sleep', 'bintrees', 'on-exit-leak-free']
  const ofPino = [
    'pino-std-serializers',
    'quick-format-unescaped',
    'safe-stable-stringify',
    'sonic-boom',
    'thread-stream',
  ]
  const known = new Set([...expected, ...ofThose, ...ofPino, 'tdigest', 'fastest-levenshtein'])
  t.strictSame(
    packages(counts).filter((name) => !known.has(name)),
    [],
  )
  t.ok((counts.undici ?? 0) <= 25, `${counts.undici} files of undici, of 109`)
})

t.test('kas, whatever its configuration says', async (t) => {
  const names = packages(await imported('kas/app.ts', 'kas/config/kas-config.ts'))
  t.ok(names.includes('libp2p'), 'gossip is always built')
  const behindFeatures = ['undici', '@opentelemetry/sdk-trace', '@opentelemetry/exporter-trace-otlp-proto']
  for (const name of [...behindFeatures, 'simple-git', '@peculiar/x509', 'tsyringe', 'fetch'])
    t.notOk(names.includes(name), name)
})
