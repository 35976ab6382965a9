import { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { bundledPrograms } from '../../runner/bundled-programs.ts'

const makes = (text: string) => async (_root: string, to: string) => {
  mkdirSync(join(to, 'kas'), { recursive: true })
  writeFileSync(join(to, 'kas/main.js'), text)
}

t.test('a folder for each content, beside the package that says the version', async (t) => {
  const root = t.testdir({ 'package.json': '{"version": "1.2.3"}' })
  const one = await bundledPrograms(root, makes('one'))
  const two = await bundledPrograms(root, makes('two'))
  t.not(two, one)
  t.equal(readFileSync(join(one, 'dist/kas/main.js'), 'utf8'), 'one')
  t.equal(readFileSync(join(one, 'package.json'), 'utf8'), '{"version": "1.2.3"}')
  t.equal(await bundledPrograms(root, makes('one')), one)
  t.equal(readdirSync(join(one, '..')).length, 2, 'nothing else is left')
})

t.test('what nobody has used for a day goes', async (t) => {
  const root = t.testdir({ 'package.json': '{}' })
  const [old, used] = [await bundledPrograms(root, makes('old')), await bundledPrograms(root, makes('used'))]
  const dayAgo = new Date(Date.now() - 86_401_000)
  for (const folder of [old, used]) utimesSync(folder, dayAgo, dayAgo)
  t.equal(await bundledPrograms(root, makes('used')), used)
  t.strictSame([existsSync(old), existsSync(used)], [false, true])
})
