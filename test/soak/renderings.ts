import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { absent } from '../support/absent.ts'
import { installedRenderers } from '../support/renderers.ts'
import { compare, filesIn } from './renderings/compared.ts'
import { published } from './renderings/published.ts'

/** Published charts and overlays: compares the program's own output with that of agentk's renderer. */

const downloadMs = 300_000
const { signal } = new AbortController()
const renderers = { kustomize: installedRenderers('kustomize'), helm: installedRenderers('helm') }
const missing = [
  ...(absent('go') ? ['go is absent'] : []),
  ...Object.entries(renderers).flatMap(([name, found]) => (found.length === 0 ? [`KAS_RENDERERS has no ${name}`] : [])),
]

/**
 * Downloads a module from the module proxy, unless it is in the cache. @returns its folder. @throws Error with the
 * message of `go`
 */
async function downloaded(module: string): Promise<string> {
  const { stdout } = await promisify(execFile)('go', ['mod', 'download', '-json', module], {
    cwd: '/',
    timeout: downloadMs,
  })
  return (JSON.parse(stdout) as { Dir: string }).Dir
}

t.test('published charts and overlays', missing.length > 0 ? { skip: missing.join(', ') } : {}, async (t) => {
  let [renderings, bytes] = [0, 0]
  for (const { module, of } of published) {
    const root = await downloaded(module)
    for (const { folder, renderings: wanted } of of) {
      const files = await filesIn(root, folder)
      for (const rendering of wanted) {
        const [program] = 'helm' in rendering ? (['helm'] as const) : (['kustomize'] as const)
        for (const { name, folder: path } of renderers[program]) {
          const { alone, isSame, problems } = await compare(files, rendering, path, signal)
          t.ok(
            isSame,
            `${module} ${Object.values(rendering).join()} by ${name}: ${alone?.length ?? 'no'} bytes, the same ${problems.join('; ')}`,
          )
          renderings++
          bytes += alone?.length ?? 0
        }
      }
    }
  }
  const of = published.flatMap(({ of }) => of.flatMap(({ renderings }) => renderings)).length
  t.comment(`${of} charts and overlays of ${published.length} modules, ${renderings} renderings, ${bytes} bytes`)
})
