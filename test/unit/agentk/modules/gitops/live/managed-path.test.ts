import t from 'tap'
import { FieldReader, keyOf, oneOf, pathText } from '../../../../../../src/agentk/modules/gitops/live/managed-path.ts'

t.test('a path is written as the API server names fields in conflicts', async (t) => {
  const shown: readonly (readonly [string[], string])[] = [
    [[], ''],
    [['f:spec', 'f:replicas'], '.spec.replicas'],
    [['f:metadata', 'f:annotations', 'f:agent.gitlab.com/digest'], '.metadata.annotations.agent.gitlab.com/digest'],
    [['f:containers', 'k:{"name":"app"}', 'f:image'], '.containers[name="app"].image'],
    [['f:ports', 'k:{"containerPort":80,"protocol":"TCP"}'], '.ports[containerPort=80,protocol="TCP"]'],
    [['f:finalizers', 'v:"a.b/c"'], '.finalizers[="a.b/c"]'],
    [['f:l', 'i:3'], '.l[3]'],
  ]
  for (const [path, text] of shown) t.equal(pathText(path), text)
})

t.test('a path steers no terminal, and a forged element is shown as it is', async (t) => {
  t.equal(pathText(['f:a\u001b[31m', 'k:{"name":"\u009bx"}']), '.a\\u001b[31m[name="\\u009bx"]')
  t.equal(pathText(['k:no json', 'k:[1]', 'k:null']), '[no json][[1]][null]')
  for (const element of ['k:no json', 'k:[1]', 'k:null', 'f:name', 'v:{}']) t.equal(keyOf(element), undefined, element)
})

t.test('values are found by names, keys, values and indexes', async (t) => {
  const reader = new FieldReader()
  const object = {
    list: [{ name: 'a', v: 1 }, { name: 'b' }, 7, null, { name: 'a', v: 2 }],
    ports: [{ port: 80, protocol: 'TCP' }, { port: 80, protocol: 'UDP', is: 'second' }, { port: 81 }],
    set: ['x', 'y', 1],
    none: null,
  }
  const at = (...path: string[]) => reader.at(object, path)
  t.equal(at('f:list', 'k:{"name":"b"}'), object.list[1])
  t.strictSame(at('f:list', 'k:{"name":"a"}'), [object.list[0], object.list[4]], 'two items with one key')
  t.equal(at('f:ports', 'k:{"port":80,"protocol":"UDP"}', 'f:is'), 'second')
  t.equal(at('f:ports', 'k:{"port":81,"protocol":"TCP"}'), object.ports[2], 'its key has a default')
  t.equal(at('f:set', 'v:"y"'), 'y')
  t.equal(at('f:set', 'v:1'), 1)
  t.equal(at('f:set', 'i:0'), 'x')
  for (const path of [
    ['f:none'],
    ['f:none', 'f:x'],
    ['f:set', 'v:"1"'],
    ['f:set', 'v:no json'],
    ['f:set', 'i:3'],
    ['f:set', 'i:-1'],
    ['f:set', 'i:x'],
    ['f:list', 'k:{"name":"c"}'],
    ['f:list', 'k:{}'],
    ['f:list', 'k:no json'],
    ['f:list', 'f:name'],
    ['f:toString'],
    ['f:list', 'k:{"name":"b"}', 'k:{"name":"b"}'],
  ])
    t.equal(at(...path), undefined, path.join(' '))
  t.equal(reader.at(undefined, ['f:x']), undefined)
  t.strictSame([oneOf([]), oneOf([1]), oneOf([1, 2])], [undefined, 1, [1, 2]])
})

t.test('forged keys index a list a few times only', async (t) => {
  const list = Array.from({ length: 1000 }, (_, i) => ({ name: `n${i}`, [`x${i}`]: i }))
  const reader = new FieldReader()
  t.strictSame(reader.children(list, 'k:{"name":"n7"}'), [list[7]])
  for (let i = 0; i < 3; i++) t.strictSame(reader.children(list, `k:{"x${i}":${i}}`), [list[i]])
  t.strictSame(reader.children(list, 'k:{"x4":4}'), [], 'the fifth set of names')
  t.strictSame(reader.children(list, 'k:{"name":"n8"}'), [list[8]], 'those before stay')
  const many = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`x${i}`, i]))
  t.strictSame(new FieldReader().children([many], `k:${JSON.stringify(many)}`), [], 'a key of nine names')
})
