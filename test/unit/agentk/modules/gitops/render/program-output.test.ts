import t from 'tap'
import { maxDocuments } from '../../../../../../src/agentk/modules/gitops/manifests/round-budget.ts'
import { placeInTemplates, templateFiles } from '../../../../../../src/agentk/modules/gitops/render/helm.ts'
import {
  ComparedOutput,
  KeptOutput,
  OutputDiffers,
  OutputTooLarge,
} from '../../../../../../src/agentk/modules/gitops/render/program-output.ts'

t.test('it is kept in one piece, up to its bound', async (t) => {
  const output = new KeptOutput(10)
  output.add(Buffer.from('hello '))
  output.add(Buffer.from('you'))
  t.equal(Buffer.from(output.bytes).toString(), 'hello you')
  t.throws(() => output.add(Buffer.from('xx')), new OutputTooLarge('it printed more than 10 bytes'))
})

t.test('the first difference ends it, wherever pieces begin', async (t) => {
  const offsetOf = (...pieces: string[]) => {
    const compared = new ComparedOutput(Buffer.from('one\ntwo\n'))
    try {
      for (const piece of pieces) compared.add(Buffer.from(piece))
      compared.end()
      return undefined
    } catch (error) {
      if (!(error instanceof OutputDiffers)) throw error
      return error.offset
    }
  }
  t.equal(offsetOf('one\ntwo\n'), undefined)
  t.equal(offsetOf('o', 'ne\ntw', 'o\n'), undefined)
  t.equal(offsetOf('one\ntwX\n'), 6)
  t.equal(offsetOf('one\n', 'tw'), 6, 'less')
  t.equal(offsetOf('one\ntwo\n', 'x'), 8, 'more')
})

t.test('templates of a chart', async (t) => {
  const chart = { chart: 'charts/shop', values: [], release: 'r' }
  const printed = Buffer.from(
    '---\n# Source: shop/templates/a.yaml\na: 1\n---\n# Source: shop/templates/b.yaml\nb: 1\n---\n# Source: shop/templates/a.yaml\na: 2\n',
  )
  const named = templateFiles(printed, chart)?.map(({ path, data }) => [path, Buffer.from(data).toString()])
  t.strictSame(named, [
    [
      'charts/shop/templates/a.yaml (rendered)',
      '# Source: shop/templates/a.yaml\na: 1\n---\n# Source: shop/templates/a.yaml\na: 2\n',
    ],
    ['charts/shop/templates/b.yaml (rendered)', '# Source: shop/templates/b.yaml\nb: 1\n'],
  ])
  t.strictSame(placeInTemplates(printed, printed.indexOf('b: 1') + 3, chart), {
    file: 'charts/shop/templates/b.yaml (rendered)',
    line: 2,
  })
  t.match(placeInTemplates(printed, printed.indexOf('a: 2') + 3, chart), { file: /a\.yaml/ })
  const many = Buffer.from(Array.from({ length: maxDocuments + 2 }, (_, i) => `---\n# Source: shop/${i}\n`).join(''))
  t.match(placeInTemplates(many, many.length - 1, chart), { file: `charts/shop/${maxDocuments - 1} (rendered)` })
})
