/**
 * Runs the test files of `KAS_TEST_FILES` in this process, one after the other. Each file is a subtest with its name;
 * its `tap` is that subtest. Open handles are reported for all files together.
 */
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { begin } from './own-test.ts'
import './tap-domains.ts'

const { default: t } = await import('tap')
await import('./slow-machine.ts')
await import('./tell-tests.ts')

const files = (process.env.KAS_TEST_FILES ?? '').split('\n') // not arguments, which would become a part of tap's name
const urls = new Map(files.map((file) => [pathToFileURL(join(process.cwd(), file)).href, file]))
const own = new URL('./own-tap.ts', import.meta.url).href

registerHooks({
  resolve(specifier, context, next) {
    const file = specifier === 'tap' ? urls.get(context.parentURL ?? '') : undefined
    return file === undefined ? next(specifier, context) : next(`${own}?${file}`, context)
  },
})

for (const [url, file] of urls) {
  t.test(file, async (t) => {
    begin(t)
    await import(url)
  })
}
