import { basename, dirname } from 'node:path'
import { limitNames } from '../../src/lib/errors.ts'
import type { Bound } from '../census/bounds.ts'
import { commentText, valueText } from './bound-text.ts'

/** The parts of the page, and the folders of `src` that only one program uses. */
const programs: readonly { readonly title: string; readonly folders?: readonly string[] }[] = [
  { title: 'kas', folders: ['kas', 'membership', 'ring'] },
  { title: 'agentk', folders: ['agentk'] },
  { title: 'Both' },
]

/** Returns doc/reference/limits.md. @param bounds - of `src`, with paths below it */
export function limitsPage(bounds: readonly Bound[]): string {
  const parts = programs.map(({ title }) => {
    const own = bounds.filter(({ file }) => programOf(file) === title)
    const folders = [...new Set(own.map(({ file }) => dirname(file)))].sort()
    const tables = folders.map((folder) => folderTable(folder, own))
    return { title, count: own.length, text: [`## ${title}`, ...tables].join('\n\n') }
  })
  const counts = parts.map(({ title, count }) => `${title.toLowerCase()} ${count}`).join(', ')
  return `${[introduction(counts), namedTable(bounds), ...parts.map(({ text }) => text)].join('\n\n')}\n`
}

/** Returns the bounds whose comment has the name of a limit of TOO_MANY_STREAMS, in backticks. */
export function boundsOfLimit(name: string, bounds: readonly Bound[]): Bound[] {
  return bounds.filter(({ comment }) => comment.includes(`\`${name}\``))
}

function programOf(file: string): string {
  const [folder = ''] = file.split('/')
  return programs.find(({ folders }) => folders?.includes(folder) ?? true)?.title ?? ''
}

const introduction = (counts: string) => `# Limits

This page lists the bounds in the code: ${counts}. \`npm run limits\` writes it from the constants and their comments.

- A bound is a constant whose name begins with \`max\`, or such a member of a constant object. In objects that are called
  limits or bounds, each number is one.
- A member has the name of its object: \`viewsBounds.maxRows\`. Its comment is in the interface, if the object has none.
- KiB, MiB and GiB are powers of 1024. A number without a unit counts the things that the name or the comment names.
- Options of the configuration can change some defaults: see [configuration](configuration.md).`

function namedTable(bounds: readonly Bound[]): string {
  const rows = limitNames.flatMap((name) =>
    boundsOfLimit(name, bounds).map((bound) =>
      line(
        `[\`${name}\`](errors.md#limits-of-too_many_streams)`,
        `\`${bound.name}\``,
        valueText(bound),
        fileLink(bound),
      ),
    ),
  )
  const head = '## Limits with a name\n\nThese are the limits that `TOO_MANY_STREAMS` names.'
  return [`${head}\n\n| Limit | Bound | Value | File |\n|---|---|---|---|`, ...rows].join('\n')
}

function folderTable(folder: string, bounds: readonly Bound[]): string {
  const rows = bounds
    .filter(({ file }) => dirname(file) === folder)
    .map((bound) => line(`\`${bound.name}\``, valueText(bound), commentText(bound), fileLink(bound)))
  return [`### src/${folder}\n\n| Name | Value | Bounds | File |\n|---|---|---|---|`, ...rows].join('\n')
}

const fileLink = ({ file }: Bound) => `[${basename(file)}](../../src/${file})`
const line = (...cells: string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
