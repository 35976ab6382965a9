import t from 'tap'
import { parse } from 'yaml'
import { type Data, dataText, outputOf, outputs } from '../../../../src/kas/command/output.ts'
import { hasControls } from '../../../../src/lib/printable.ts'

const hostile = 'a\u001b[2J\u202eb: #c\n- d'
const data: Data = {
  kind: 'AgentList',
  fields: { items: [{ name: hostile, since: undefined }] },
  names: ['agent/a', 'agent/b'],
  table: (isWide) => `${isWide ? 'wide' : 'table'}\n`,
}

t.test('each format; what is not known is absent', async (t) => {
  t.equal(await dataText(data, 'table'), 'table\n')
  t.equal(await dataText(data, 'wide'), 'wide\n')
  t.equal(await dataText(data, 'name'), 'agent/a\nagent/b\n')
  const whole = { apiVersion: 'kas/v1', kind: 'AgentList', items: [{ name: hostile }] }
  for (const output of ['json', 'yaml'] as const) {
    const text = await dataText(data, output)
    t.strictSame(output === 'yaml' ? parse(text) : JSON.parse(text), whole, output)
    t.notOk(hasControls(text.replaceAll('\n', '')), `${output} steers no terminal`)
    t.match(text, /[^\n]\n$/, output)
  }
})

t.test('a format that is unknown, or said twice, is refused with what is allowed', async (t) => {
  t.equal(outputOf({}, outputs), 'table')
  t.equal(outputOf({ output: ['json'] }, outputs), 'json')
  const refused = [
    [['xml'], '-o xml: allowed is table, wide, name, json, yaml'],
    [[''], '-o : allowed is table, wide, name, json, yaml'],
    [['JSON'], '-o JSON: allowed is table, wide, name, json, yaml'],
    [['json', 'yaml'], '-o is said 2 times: json, yaml'],
    [['json', 'json'], '-o is said 2 times: json, json'],
  ] as const
  const watch = true
  t.equal(outputOf({ output: ['yaml'], watch }, outputs), 'yaml')
  t.throws(() => outputOf({ output: ['name'], watch }, outputs), {
    message: '-o name with --watch: allowed is table, wide, json, yaml',
  })
  for (const [output, message] of refused) t.throws(() => outputOf({ output }, outputs), { message }, message)
})
