import { create } from '@bufbuild/protobuf'
import { PreviewEndSchema } from '../../../../../proto/gen/gitops_preview_pb.ts'
import type { CliIo } from '../../../../command/command.ts'
import { markdownFormat, maxNoteCharacters } from '../../preview/markdown-format.ts'
import { codeSpan } from '../../preview/markdown-text.ts'
import { ndjsonFormat } from '../../preview/ndjson-format.ts'
import type { Preview } from '../../preview/preview.ts'
import { endSentences, problemSentences } from '../../preview/previewed-groups.ts'
import { terraformFormat } from '../../preview/terraform-format.ts'
import { textFormat } from '../../preview/text-format.ts'
import { resultCode, type SourceResult } from './source-result.ts'

export const formats = ['text', 'ndjson', 'markdown', 'terraform'] as const
export type Format = (typeof formats)[number]

/**
 * Prints the results on stdout. Sentences that the format has no place for go to stderr, as do the reasons for which
 * sources were not compared.
 */
export function printResults(results: readonly SourceResult[], format: Format, io: Pick<CliIo, 'stdout' | 'stderr'>) {
  for (const { source, preview, history } of results) {
    if ('problem' in preview) io.stderr.write(`kas diff: source ${source}: ${oneLine(preview.problem)}\n`)
    else if (format === 'terraform' && (isBad(preview) || isPartial(preview)))
      io.stderr.write(
        [...problemSentences(preview.end), ...endSentences(preview.end)]
          .map((text) => `kas diff: source ${source}: ${oneLine(text)}\n`)
          .join(''),
      )
    if (history !== undefined && (format === 'ndjson' || format === 'terraform'))
      io.stderr.write(`kas diff: source ${source}: ${history}\n`)
  }
  io.stdout.write(textOf(results, format))
}

function textOf(results: readonly SourceResult[], format: Format): string {
  switch (format) {
    case 'text':
      return results.flatMap((result) => resultText(result) ?? []).join('\n')
    case 'ndjson':
      return results.map((result) => ndjsonFormat(previewOf(result))).join('')
    case 'markdown':
      return results.map((result) => resultMarkdown(result)).join('\n')
    case 'terraform':
      return reportOf(results)
  }
}

function resultText({ preview, history }: SourceResult): string | undefined {
  if ('problem' in preview) return undefined
  return `${history === undefined ? '' : `${history}\n`}${textFormat(preview)}`
}

/**
 * Returns a result as Markdown for a note.
 *
 * @param maxCharacters - limit of its length
 */
export function resultMarkdown(
  { source, preview, history }: SourceResult,
  maxCharacters: number = maxNoteCharacters,
): string {
  const first = history === undefined ? '' : `**${history}**\n\n`
  const text =
    'problem' in preview
      ? `**Preview** of source ${codeSpan(source)}: not compared: ${codeSpan(preview.problem)}\n`
      : markdownFormat(preview, maxCharacters - first.length)
  return `${first}${text}`
}

/** True if numbers of changes would hide that something is wrong. */
function isBad(preview: SourceResult['preview']): boolean {
  return resultCode({ preview }) >= 4
}

/** True if some manifests or objects are in no number, or not listed. */
function isPartial({ end }: Preview): boolean {
  return end.notCompared > 0 || end.cut > 0
}

/**
 * Returns the report, with the sum of all sources. GitLab shows the report of a failed job too, so that there is none if a
 * source is refused, failing or not compared.
 */
function reportOf(results: readonly SourceResult[]): string {
  const sum = create(PreviewEndSchema)
  for (const { preview } of results) {
    if ('problem' in preview || isBad(preview)) return ''
    for (const name of ['created', 'changed', 'adopted', 'recreated', 'deleted', 'waiting'] as const)
      sum[name] += preview.end[name]
  }
  return `${terraformFormat({ end: sum })}\n`
}

function previewOf({ source, preview }: SourceResult): Preview {
  if (!('problem' in preview)) return preview
  return { source, objects: [], end: create(PreviewEndSchema, { problem: preview.problem }) }
}

const oneLine = (text: string) => text.replaceAll('\n', ' ')
