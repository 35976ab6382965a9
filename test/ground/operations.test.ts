import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'

/** Logs, metrics, errors and files that doc/operate/operations.md names exist. */

const root = join(import.meta.dirname, '../..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const document = read('doc/operate/operations.md').replaceAll(/^```.*?^```$/gms, '')
const quoted = [...new Set([...document.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text))]
const matches = (pattern: RegExp) => [...new Set(quoted.flatMap((text) => text.match(pattern) ?? []))]

t.test('sentences of the log', async (t) => {
  const source = globSync('src/**/*.ts', { cwd: root, exclude: ['src/proto/gen/**'] }).map(read)
  const sentences = quoted.filter((text) => /^[A-Z][a-z]* [a-z]/.test(text))
  t.ok(sentences.length > 8)
  for (const sentence of sentences)
    t.ok(
      source.some((text) => text.includes(sentence)),
      sentence,
    )
})

t.test('metrics', async (t) => {
  const known = read('doc/reference/metrics.md')
  const names = matches(/\b(kas|agentk|nodejs|k8s_api_proxy|agent_server)_[a-z0-9_]+/g)
  t.ok(names.length > 10)
  for (const name of names) t.ok(known.includes(name), name)
})

t.test('errors', async (t) => {
  const known = read('doc/reference/errors.md')
  const codes = matches(/\b[A-Z]{3,}_[A-Z_]*[A-Z]\b/g).filter(
    (code) => !code.startsWith('POD_NAME') && !code.startsWith('OTEL_'),
  )
  t.ok(codes.length > 4)
  for (const code of codes) t.ok(known.includes(`| \`${code}\` |`), code)
})

t.test('files and headings', async (t) => {
  const pages = ['doc/operate/operations.md', 'deploy/kubernetes/README.md']
  const links = pages.flatMap((page) => [...read(page).matchAll(/\]\(([^)]+)\)/g)].map(([, to = '']) => ({ page, to })))
  t.ok(links.length > 20)
  for (const { page, to } of new Map(links.map((link) => [`${link.page}: ${link.to}`, link])).values()) {
    const [path = '', heading] = to.split('#')
    const file = path === '' ? page : join(dirname(page), path)
    t.ok(existsSync(join(root, file)), `${page}: ${to}`)
    if (heading !== undefined) t.ok(headingsOf(read(file)).includes(heading), `${page}: ${to}`)
  }
})

const headingsOf = (text: string): string[] =>
  [...text.matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  )
