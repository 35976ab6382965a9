import type { PreviewEnd, PreviewedObject } from '../../../../proto/gen/gitops_preview_pb.ts'
import { fieldLines } from './field-lines.ts'
import { codeElement, codeSpan, fencedBlock } from './markdown-text.ts'
import type { Preview } from './preview.ts'
import { comparedText, endSentences, objectText, placeText, previewedGroups, remarks } from './previewed-groups.ts'

/** Limit of a note's text: GitLab accepts 1,000,000 characters, and readers few. */
export const maxNoteCharacters = 60_000

/** Characters that are kept free for the sentence about objects that have no room. */
const charactersOfRest = 200

/** Characters of one text of others outside of folds. */
const maxTextCharacters = 2000

/**
 * Returns a preview as Markdown for a note of GitLab: problems first, then counts, then a fold for each object. Texts of
 * others are code, so that none of them is markup, a mention, a reference, a link or a quick action.
 *
 * @param maxCharacters - limit of its length
 */
export function markdownFormat({ source, objects, end }: Preview, maxCharacters: number = maxNoteCharacters): string {
  const head = [
    `**Preview** of source ${code(source)}: ${comparedText(end, code)}`,
    '',
    ...problemLines(end),
    endSentences(end).join(' '),
    '',
  ].join('\n')
  const blocks = previewedGroups(objects).flatMap(({ title, objects: own }) => own.map((one) => fold(title, one)))
  let [text, shown] = [head, 0]
  for (const block of blocks) {
    if (text.length + block.length > maxCharacters - charactersOfRest) continue
    text += block
    shown += 1
  }
  const rest = blocks.length - shown
  return rest > 0 ? `${text}\n${rest} more ${rest === 1 ? 'object has' : 'objects have'} no room in this note.\n` : text
}

/** Returns the lines about problems of the whole. */
function problemLines({ refusal, problem }: PreviewEnd): readonly string[] {
  const place = refusal ? placeText(refusal) : ''
  const refused = refusal && [...(place === '' ? [] : [code(place)]), code(refusal.text)].join(': ')
  return [
    ...(refused === undefined ? [] : [`**The commit would be refused**: ${refused}`, '']),
    ...(problem === '' ? [] : [`**Not all could be compared**: ${code(problem)}`, '']),
  ]
}

function fold(title: string, object: PreviewedObject): string {
  const place = placeText(object)
  const lines = [
    ...remarks(object).map((text) => `# ${text}`),
    ...fieldLines(object).map(({ sign, text }) => (sign === '' ? `@@ ${text} @@` : `${sign} ${text}`)),
  ]
  const summary = [title, objectText(object), place]
    .flatMap((text) => (text === '' ? [] : [codeElement(text)]))
    .join(' ')
  if (lines.length === 0) return `\n${summary}\n`
  const parts = [`<details><summary>${summary}</summary>`, '', ...fencedBlock(lines, 'diff'), '', '</details>']
  return `\n${parts.join('\n')}\n`
}

function code(text: string): string {
  return codeSpan(text.length > maxTextCharacters ? `${text.slice(0, maxTextCharacters)}…` : text)
}
