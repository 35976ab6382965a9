import t from 'tap'
import { pathWithoutValues } from '../../../../../../src/agentk/modules/gitops/preview/path-values.ts'

t.test('items are told apart by names, and by no value', async (t) => {
  const cases = [
    ['.metadata.finalizers[="planted"]', '.metadata.finalizers[=…]'],
    ['.spec.users[token="planted"].role', '.spec.users[token=…].role'],
    ['.spec.users[name="a",token="planted"].role', '.spec.users[name="a",token=…].role'],
    ['.spec.users[token="planted ]\\" planted",port=80]', '.spec.users[token=…,port=80]'],
    ['.spec.codes[=7]', '.spec.codes[=…]'],
    ['.spec.users[token="planted…', '.spec.users[token=…'],
    ['.spec.users[token="planted\\', '.spec.users[token=…'],
    [
      '.spec.users[token="planted"], .spec.more[="planted"] (kubectl)',
      '.spec.users[token=…], .spec.more[=…] (kubectl)',
    ],
  ]
  for (const [path = '', shown] of cases) t.equal(pathWithoutValues(path), shown)
})

t.test('keys of kinds of Kubernetes, indexes and fields stay', async (t) => {
  for (const path of [
    '.spec.template.spec.containers[name="app"].ports[containerPort=80,protocol="TCP"].name',
    '.spec.ports[port=80,protocol="TCP"].nodePort',
    '.spec.containers[0].image',
    '.spec.containers[*].image',
    '.metadata.annotations.example.com/a',
    '',
  ])
    t.equal(pathWithoutValues(path), path)
})
