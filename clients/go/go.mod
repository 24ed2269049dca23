module github.com/ringfence/ringfence/clients/go

go 1.19
