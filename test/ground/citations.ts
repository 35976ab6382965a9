import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

/** Citations in texts, and whether their target exists. Paths are relative to the root. */

/** names of pages of the reference, besides their paths */
const pages: Readonly<Record<string, string>> = {
  captured: 'doc/reference/captured.md',
  'captured.md': 'doc/reference/captured.md',
}
/** short names, in tables of the wire and inside the reference */
const shortPages: Readonly<Record<string, string>> = {
  W: 'doc/reference/tunnel-protocol.md',
  G: 'doc/reference/gitlab-contract.md',
}
const hasShortPages =
  /^(?:doc\/reference\/(?:tunnel-protocol|gitlab-contract|captured|traps|wire)\.md$|dev\/wire\/rows\/)/

const section = String.raw`\d+(?:\.\d+)*`
const rows = String.raw`no\.\s+\d+(?:(?:,|\s+and|\s+to)\s+\d+(?!\.?\d))*`
/** `9.1`, `9.1 no. 3`, `2.2 no. 11 to 15`, `9.1 no. 1, 2`; `no. 57` of a page with continuous numbers */
const item = String.raw`(?:${section}(?:\s+${rows})?|${rows})`
const items = String.raw`\s+(?<items>${item}(?:(?:,|\s+and|\s+to)\s+${item})*)`

const long = new RegExp(String.raw`(?<![\w/.-])(?<name>wire-protocol|gitlab-contract|captured(?:\.md)?)${items}`, 'g')
const short = new RegExp(String.raw`\b(?<name>[WG])${items}`, 'g')
const path = new RegExp(String.raw`\b(?<page>doc\/reference\/[\w-]+\.md)${items}`, 'g')
const linkItems = new RegExp(String.raw`\]\((?<link>[\w./-]+\.md)\)${items}`, 'g')
const quoted = /\b(?<page>doc\/[\w/-]+\.md)\s+"(?<heading>[^"]+)"/g
const file = /(?<![\w-])(?<page>doc\/[\w/-]+\.md)/g
const decision = /\b(?:decision\s+|doc\/decisions\/)(?<number>\d+)/gi
const link = /\]\((?<link>[\w./-]*)(?:#(?<anchor>[\w-]+))?\)/g
/** sections of a document that does not belong to the project */
const design = /\bdesign(?:,|'s)?\s+(?:section\s+)?\d+/gi

/** Returns the citations in these files that lead nowhere, as `file:line: citation`. */
export function unresolved(root: string, files: readonly string[]): string[] {
  const pageAt = pageReader(root)
  return files.flatMap((name) => {
    const text = oneLine(readFileSync(join(root, name), 'utf8'))
    const has = (page: string | undefined, cited: string) =>
      page !== undefined && sectionsOf(cited).every((one) => pageAt(page)?.has(one))
    const near = (target: string) => normalize(join(dirname(name), target))
    const wrong = (pattern: RegExp, resolves: (groups: Groups) => boolean) =>
      [...text.matchAll(pattern)].filter(({ groups = {} }) => !resolves(groups as Groups))
    return [
      ...wrong(long, ({ name, items }) => has(pages[name], items)),
      ...(hasShortPages.test(name) ? wrong(short, ({ name, items }) => has(shortPages[name], items)) : []),
      ...wrong(path, ({ page, items }) => has(page, items)),
      ...wrong(quoted, ({ page, heading }) => pageAt(page)?.headings.has(heading.replaceAll(/\s+/g, ' ')) ?? false),
      ...wrong(file, ({ page }) => pageAt(page) !== undefined),
      ...wrong(decision, ({ number }) => decisionExists(root, number)),
      ...(name.endsWith('.md')
        ? [
            ...wrong(
              linkItems,
              ({ link, items }) => !near(link).startsWith('doc/reference/') || has(near(link), items),
            ),
            ...wrong(link, ({ link, anchor }) => linkResolves(pageAt, root, link === '' ? name : near(link), anchor)),
          ]
        : []),
    ].map((match) => told(name, text, match))
  })
}

/** Returns the citations of that document's sections, in the form of `unresolved`. */
export function designCitations(root: string, files: readonly string[]): string[] {
  return files.flatMap((name) => {
    const text = oneLine(readFileSync(join(root, name), 'utf8'))
    return [...text.matchAll(design)].map((match) => told(name, text, match))
  })
}

type Groups = Readonly<Record<'name' | 'items' | 'page' | 'heading' | 'number' | 'link' | 'anchor', string>>

function told(name: string, text: string, match: RegExpExecArray): string {
  const line = text.slice(0, match.index).split('\v').length
  return `${name}:${line}: ${match[0].replaceAll(/\s+/g, ' ')}`
}

/**
 * Joins the lines of a comment, because a citation may span two lines. `\v`, white space for patterns, marks each line
 * end.
 */
const oneLine = (text: string): string => text.replaceAll(/\n[ \t]*(?:\*(?!\*)|\/\/|#(?!#))?/g, '\v')

/** Splits `9.1 no. 1, 2, 10.3 no. 4` into `9.1 no. 1`, `9.1 no. 2` and `10.3 no. 4`. */
function sectionsOf(cited: string): { section: string; row?: string }[] {
  return [...cited.matchAll(new RegExp(item, 'g'))].flatMap(([one]) => {
    const [section = '', rows] = one.split(/\s*no\.\s+/)
    return rows === undefined ? [{ section }] : [...rows.matchAll(/\d+/g)].map(([row]) => ({ section, row }))
  })
}

interface Page {
  readonly headings: ReadonlySet<string>
  has(place: { section: string; row?: string }): boolean
}

function pageReader(root: string): (path: string) => Page | undefined {
  const read = new Map<string, Page | undefined>()
  return (path) => {
    if (!read.has(path)) read.set(path, readPage(join(root, path)))
    return read.get(path)
  }
}

function readPage(path: string): Page | undefined {
  if (globSync(path).length === 0) return undefined
  const headings = new Set<string>()
  /** rows of each numbered section without its subsections: numbers of a list or of a table's first column */
  const rows = new Map<string, Set<string>>()
  let open: Set<string> | undefined
  for (const line of readFileSync(path, 'utf8').split('\n')) {
    const [, heading] = /^#+ (.+)$/.exec(line) ?? []
    const [, row] = /^(?:\| )?(\d+)(?:\. | [^|]*\|)/.exec(line) ?? []
    if (row !== undefined) open?.add(row)
    if (heading === undefined) continue
    headings.add(heading)
    const [number] = /^\d+(?:\.\d+)*(?= )/.exec(heading) ?? []
    open = number === undefined ? undefined : new Set()
    if (number !== undefined && open !== undefined) rows.set(number, open)
  }
  return {
    headings,
    has({ section, row }) {
      if (row === undefined) {
        const [above, last = ''] = [section.replace(/\.?\d+$/, ''), section.split('.').at(-1)]
        return rows.has(section) || (rows.get(above)?.has(last) ?? false) // 0.3.4 is the fourth item of the list in 0.3
      }
      const within = [...rows].filter(([number]) => section === '' || `${number}.`.startsWith(`${section}.`))
      return within.some(([, own]) => own.has(row))
    },
  }
}

function linkResolves(
  pageAt: (path: string) => Page | undefined,
  root: string,
  target: string,
  anchor: string | undefined,
): boolean {
  if (anchor === undefined) return globSync(join(root, target)).length > 0
  return [...(pageAt(target)?.headings ?? [])].some((heading) => slug(heading) === anchor)
}

/** Returns the anchor that forges make from a heading. */
const slug = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
    .replaceAll(' ', '-')

function decisionExists(root: string, number: string): boolean {
  return globSync(`doc/decisions/${number.padStart(4, '0')}-*.md`, { cwd: root }).length > 0
}
